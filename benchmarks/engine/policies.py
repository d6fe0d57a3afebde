"""Scheduling policies against each other and against the bound of what any of them could do.

    python benchmarks/engine/policies.py --simulate A --load 1,1.25,1.5 --seeds 3 --json
    python benchmarks/engine/policies.py --exact 40
    python benchmarks/engine/policies.py --random 120
    python benchmarks/engine/policies.py --real --seconds 60 --loads 6,8,12,16,20

--simulate: the real scheduler, pool and admission on a virtual clock with a device curve (A bends,
B is a saturated device). --exact: tiny cases whose optimum is known. --random: promises of edf-s
with admission in random cases. --real (the default): toybox on this machine by wall clock. Every
run prints tables and, last, one JSON line; --json only that.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onbeat.server.cli.flags import number, one_of, several, whole
from onbeat.server.engine.bench_policies import CONTENDERS, compare_real, real_table
from onbeat.server.engine.simulate.cases import Case, cases
from onbeat.server.engine.simulate.compare import VARIANTS, Point, measure
from onbeat.server.engine.simulate.plot import svg
from onbeat.server.engine.simulate.random_cases import promises
from onbeat.server.engine.simulate.report import (
    HEAD,
    grid,
    line,
    summary,
    tiny_summary,
    tiny_table,
)
from onbeat.server.engine.simulate.tiny import tiny_cases

Say = Callable[[str], None]
CASES = ("large", "tight", "mixed", "small")


def simulated(arguments: argparse.Namespace, say: Say) -> dict[str, Any]:
    """Every variant on every case of the devices at every load."""
    seconds = arguments.seconds or 60.0
    panels: dict[str, list[Point]] = {}
    results: dict[str, Any] = {}
    for device in arguments.simulate:
        chosen = [c for c in cases(device) if c.name in arguments.cases]
        points = _points(chosen, arguments, seconds, say)
        panels |= {f"{device}, {c.name}": _plotted(points, c.name) for c in chosen}
        results[device] = summary(points, chosen, seconds)
    if arguments.plot:
        Path(arguments.plot).write_text(svg(panels), encoding="utf-8")
    if len(results) == 1:
        return next(iter(results.values()))
    return {"benchmark": "policies-simulated", "devices": results}


def _points(
    chosen: list[Case], arguments: argparse.Namespace, seconds: float, say: Say
) -> list[Point]:
    points: list[Point] = []
    say(HEAD)
    for case in chosen:
        for load in arguments.load:
            for variant in VARIANTS:
                point = measure(case, load, variant, seeds=arguments.seeds, seconds=seconds)
                points.append(point)
                say(line(point))
    for case in chosen:
        say("\nclean of admitted streams, frames on time in %, goodput / bound\n")
        say(grid(points, case.name))
    return points


def _plotted(points: list[Point], case: str) -> list[Point]:
    """edf-s with and without admission, the baselines without."""
    return [
        p
        for p in points
        if p.case == case
        and not p.variant.anytime
        and (p.variant.policy == "edf-s" or not p.variant.admission)
    ]


def exact(arguments: argparse.Namespace, say: Say) -> dict[str, Any]:
    found = tiny_cases(arguments.exact)
    say(tiny_table(found))
    return tiny_summary(found)


def random(arguments: argparse.Namespace, say: Say) -> dict[str, Any]:
    found = [promises(seed) for seed in range(arguments.random)]
    for case in found:
        if not case.kept:
            say(f"broken: {case}")
    return {
        "benchmark": "policies-random",
        "cases": len(found),
        "streams_offered": sum(c.offered for c in found),
        "streams_admitted": sum(c.admitted for c in found),
        "cases_with_a_broken_promise": sum(not c.kept for c in found),
        "worst_stream_ratio": round(min(c.worst for c in found), 4),
    }


def real(arguments: argparse.Namespace, say: Say) -> dict[str, Any]:
    result = compare_real(
        arguments.model,
        loads=arguments.loads,
        seconds=arguments.seconds or 10.0,
        names=arguments.policies,
        say=say,
    )
    say(real_table(result))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--simulate", type=several(one_of("AB")), metavar="A,B", help="device curves")
    mode.add_argument("--exact", type=whole(), metavar="N", help="so many tiny cases")
    mode.add_argument("--random", type=whole(), metavar="N", help="so many random cases")
    mode.add_argument("--real", action="store_true", help="the real engine, the default")
    parser.add_argument("--seconds", type=number, help="of each point; simulated 60, real 10")
    parser.add_argument("--json", action="store_true", help="print only the JSON line")
    parser.add_argument(
        "--load", type=several(number), default="1.25", help="simulated: of capacity"
    )
    parser.add_argument("--seeds", type=whole(), default=3, help="simulated: runs of each point")
    parser.add_argument(
        "--cases",
        type=several(one_of(CASES)),
        default=",".join(CASES),
        help="simulated",
    )
    parser.add_argument("--plot", metavar="FILE.svg", help="simulated: goodput over load")
    parser.add_argument(
        "--loads", type=several(whole()), default="4,6,8,12,16,20", help="real: streams"
    )
    parser.add_argument(
        "--policies",
        type=several(one_of(CONTENDERS)),
        default=",".join(CONTENDERS),
        help="real",
    )
    parser.add_argument("--model", default="toybox", help="real")
    arguments = parser.parse_args()
    say: Say = (lambda text: None) if arguments.json else (lambda text: print(text, flush=True))
    if arguments.simulate:
        result = simulated(arguments, say)
    elif arguments.exact:
        result = exact(arguments, say)
    elif arguments.random:
        result = random(arguments, say)
    else:
        result = real(arguments, say)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
