"""Sessions that come and go, by random arrivals or by a trace, under each policy: a simulation.

    python benchmarks/engine/workload.py --rate 0.4 --burstiness 0.3 --length 30 --seconds 600
    python benchmarks/engine/workload.py --trace FILE.csv --azure --speed 4

Arrivals are open-loop: gamma gaps of the given burstiness (1 is Poisson), lognormal lengths; what
is refused does not come again. Prints a table and, last, one JSON line. What it is not: the
comparison at fixed loads with the bound (policies.py).
"""

import argparse
import json
from pathlib import Path
from typing import Any

from onbeat.server.cli.flags import number, one_of, several, whole
from onbeat.server.engine.settings import POLICIES
from onbeat.server.engine.simulate.cases import MAX_ROWS, Case, cases
from onbeat.server.engine.simulate.run import simulate, simulated_settings
from onbeat.server.engine.simulate.tally import Result
from onbeat.server.engine.simulate.traces import AZURE, SESSIONS, replay
from onbeat.server.engine.simulate.workload import (
    Arrivals,
    Lengths,
    Session,
    arriving,
    mean_active,
)

CASES = ("large", "tight", "mixed", "small")


def sessions_of(arguments: argparse.Namespace, case: Case) -> list[Session]:
    if arguments.trace:
        return replay(
            Path(arguments.trace),
            columns=AZURE if arguments.azure else SESSIONS,
            classes=case.classes,
            until=arguments.seconds,
            speed=arguments.speed,
            seed=arguments.seed,
        )
    return arriving(
        Arrivals(rate=arguments.rate, burstiness=arguments.burstiness),
        Lengths(mean=arguments.length, sigma=arguments.sigma),
        until=arguments.seconds,
        classes=case.classes,
        seed=arguments.seed,
    )


def figures(result: Result) -> dict[str, Any]:
    offered, admitted = len(result.streams), len(result.admitted)
    frames = sum(s.on_time for s in result.streams) / sum(s.due for s in result.streams)
    return {
        "streams_offered": offered,
        "streams_admitted": admitted,
        "admission_reject_rate": round(1.0 - admitted / offered, 4),
        "streams_clean": result.clean,
        "on_time_frame_ratio": round(result.on_time_ratio, 4),
        "on_time_of_offered": round(frames, 4),
        "busy_ratio": round(result.busy / result.seconds, 4),
        "steps_mean": round(result.mean_steps, 3),
        "simulated_seconds_per_second": round(result.speed),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--simulate", type=one_of("AB"), default="A", help="device curve")
    parser.add_argument("--case", type=one_of(CASES), default="large")
    parser.add_argument("--rate", type=number, default=0.4, help="sessions a second")
    parser.add_argument("--burstiness", type=number, default=1.0, help="gamma shape of the gaps")
    parser.add_argument("--length", type=number, default=30.0, help="mean seconds of a session")
    parser.add_argument("--sigma", type=number, default=0.8, help="of the logarithm of lengths")
    parser.add_argument("--trace", help="CSV file instead of random arrivals")
    parser.add_argument("--azure", action="store_true", help="the trace has Azure's columns")
    parser.add_argument("--speed", type=number, default=1.0, help="of the trace")
    parser.add_argument("--seconds", type=number, default=300.0, help="until the last arrival")
    parser.add_argument("--policies", type=several(one_of(POLICIES)), default=",".join(POLICIES))
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--json", action="store_true", help="print only the JSON line")
    arguments = parser.parse_args()
    case = next(c for c in cases(arguments.simulate) if c.name == arguments.case)
    sessions = sessions_of(arguments, case)
    results: dict[str, Any] = {}
    for policy in arguments.policies:
        for admission in (True, False):
            settings = simulated_settings(policy=policy, admission=admission, max_rows=MAX_ROWS)
            label = f"{policy}{' + admission' if admission else ''}"
            result = simulate(
                sessions, case.machine, settings=settings, spec=case.spec, seed=arguments.seed
            )
            results[label] = found = figures(result)
            if not arguments.json:
                values = "  ".join(f"{k} {v}" for k, v in found.items())
                print(f"{label:32} {values}", flush=True)
    active = mean_active(sessions)
    print(
        json.dumps(
            {
                "benchmark": "workload",
                "case": case.name,
                "device": case.device,
                "mean_active": round(active, 2),
                "load": round(active / case.capacity, 3),
                "policies": results,
            }
        )
    )


if __name__ == "__main__":
    main()
