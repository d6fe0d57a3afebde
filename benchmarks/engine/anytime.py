"""Quality bends, time does not: half more streams than admission would take, then half of them.

    python benchmarks/engine/anytime.py --json

On the real engine without admission: the share of chunks on time under overload and their steps,
then the time until all streams that are left have full steps again. Prints the steps of each
stream and, last, one JSON line. What it is not: a comparison of policies (policies.py).
"""

import argparse
import json
import time
from collections import Counter
from typing import Any

from onbeat.models.registry import load_model
from onbeat.models.spec import CausalModel
from onbeat.server.cli.flags import number, whole
from onbeat.server.engine.bench_load import Load, Seen
from onbeat.server.engine.settings import EngineSettings

OVERLOAD, RELIEF = 1.5, 0.5
LIMIT_SECONDS = 2.0
CALM_SECONDS = 4.0


def measure(model: CausalModel, seconds: float, capacity: int | None) -> dict[str, Any]:
    """`capacity`: the streams that admission takes; as the engine announces if None."""
    load = Load(model, EngineSettings(admission=False))
    try:
        fits = capacity or load.ready.capacity_streams
        names = [f"live {i}" for i in range(max(2, round(OVERLOAD * fits)))]
        load.start(names)
        load.read(model.spec.chunk_seconds * (model.spec.window_chunks + 2))
        start = time.monotonic()
        load.read(seconds)
        stop = time.monotonic()
        left = names[: max(1, round(RELIEF * fits))]
        load.stop(names[len(left) :])
        load.read(CALM_SECONDS)
    finally:
        load.close()
    return result(load, names, left, start, stop, fits)


def result(
    load: Load, names: list[str], left: list[str], start: float, stop: float, fits: int
) -> dict[str, Any]:
    full = load.ready.default_steps
    made, lost = load.seen.due(start, stop, "live")
    steps = {name: Counter(e.steps for e in made if e.stream_id == name) for name in names}
    return {
        "benchmark": "anytime",
        "capacity_streams": fits,
        "streams": len(names),
        "on_time_ratio": round(load.seen.on_time(start, stop, "live"), 4),
        "dropped": lost,
        "steps_mean": round(sum(e.steps for e in made) / max(1, len(made)), 3),
        "steps_full": full,
        "steps_by_stream": {
            name: {str(n): c for n, c in sorted(count.items())} for name, count in steps.items()
        },
        "streams_after": len(left),
        "full_steps_after_s": recovery(load.seen, left, stop, full),
        "limit_s": LIMIT_SECONDS,
    }


def recovery(seen: Seen, names: list[str], relief: float, full: int) -> float:
    """Seconds from `relief` until the last chunk with fewer than full steps was ready."""
    short = [e for e in seen.ready if e.stream_id in names and e.steps < full]
    return round(max([e.ready_at - relief for e in short if e.ready_at > relief], default=0.0), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=number, default=20.0, help="counted time under overload")
    parser.add_argument(
        "--capacity", type=whole(), help="streams that admission takes, if not asked"
    )
    parser.add_argument("--model", default="toybox")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    arguments = parser.parse_args()
    line = measure(load_model(arguments.model), arguments.seconds, arguments.capacity)
    if not arguments.json:
        for name, steps in line["steps_by_stream"].items():
            print(f"{name:9} chunks by steps {steps}")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
