"""What deciding costs: one plan of edf-s, the candidates for it, and one admission.

    python benchmarks/engine/plan.py --json

Streams at random phases of their chunk, on a table where batching pays; "fits" has all work on time
and few instants, "does not fit" three times the load that the table carries. Prints a table and,
last, one JSON line with milliseconds. What it is not: the work of the lanes (policies.py --real).
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from typing import Any

from onbeat.models.spec import EncodedPrompt, ModelSpec
from onbeat.server.cli.flags import number
from onbeat.server.engine.cost import SIZES, CostModel
from onbeat.server.engine.forward import Batches, Demand, best_phase
from onbeat.server.engine.ladder import FirmRecord, Ladder
from onbeat.server.engine.messages import OpenStream
from onbeat.server.engine.policies.edf_s import EdfS
from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.scheduler import Candidate
from onbeat.server.engine.simulate.world import simulated_spec
from onbeat.server.engine.streams import Conditions, Stream, candidate
from onbeat.server.engine.window import Window

COUNTS = (16, 64, 1000)
NOW = 1000.0
LIMITS = {64: 0.3, 1000: 10.0}
"""Milliseconds that a plan may take in the median."""


def streams(count: int, spec: ModelSpec, draw: random.Random) -> list[Stream]:
    """Live streams somewhere in the work of a chunk, every eighth with its first one."""
    pool = KVPool(1)
    encoded = EncodedPrompt(pooled=None, slots=None, recognised=())  # type: ignore[arg-type]
    made = []
    for i in range(count):
        owner = f"owner {i % 5}"
        stream = Stream(
            opened=OpenStream(stream_id=f"s{i}", kind="live", prompt="", seed=0, owner=owner),
            order=i,
            wanted_at=NOW - draw.random(),
            now=Conditions(
                prompt="", encoded=encoded, seed=0, steps=None, revision=0, transition="cut"
            ),
            sink=0,
            window=Window(pool, 1),
            decoder=None,
            ladder=Ladder(calm_chunks=1),
            firm=FirmRecord(m=29, k=30),
            phase=draw.random() * spec.chunk_seconds,
        )
        if i % 8:
            stream.start_clock(0, NOW + draw.random() * 2 * spec.chunk_seconds, spec)
        for _ in range(draw.randrange(3)):
            stream.firm.note(False)
        made.append(stream)
    return made


def measured(run: Callable[[], object], seconds: float) -> dict[str, float]:
    """Milliseconds of `run`, over at least `seconds`."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 20:
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    ordered = sorted(times)
    return {
        "p50": round(1e3 * ordered[len(ordered) // 2], 4),
        "p99": round(1e3 * ordered[int(0.99 * (len(ordered) - 1))], 4),
    }


def costs(capacity: float, spec: ModelSpec) -> CostModel:
    """A table on which so many streams of full steps fit: a row of a large batch costs a quarter
    of a row alone."""
    row = spec.chunk_seconds / (capacity * (1 + spec.default_steps))
    return CostModel({n: row * (0.75 * 4 + n) for n in SIZES if n <= 64}, margin=1.05)


def plans(count: int, seconds: float, spec: ModelSpec) -> dict[str, Any]:
    made = streams(count, spec, random.Random(count))

    def candidates() -> list[Candidate]:
        return [candidate(s, spec, filled=True, compute_by=0.05, startup=0.5) for s in made]

    ready = candidates()
    policy = EdfS(max_rows=64 if count > 64 else 16)
    return {
        "candidates": measured(candidates, seconds),
        "fits": measured(lambda: policy.plan(NOW, ready, costs(3.0 * count, spec)), seconds),
        "does_not_fit": measured(lambda: policy.plan(NOW, ready, costs(count / 3, spec)), seconds),
    }


def admission(count: int, seconds: float) -> dict[str, float]:
    draw = random.Random(count)
    new = Demand(rows=5, period=0.75, window=1.4)
    live = [
        Demand(rows=5, period=0.75, window=1.4, phase=0.75 * draw.random()) for _ in range(count)
    ]
    batches = Batches([0.75 * (3 + n) / (5 * count) for n in range(1, 17)])
    return measured(lambda: best_phase(live, new, batches), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=number, default=1.0, help="of each measurement")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    arguments = parser.parse_args()
    spec = simulated_spec()
    found = {count: plans(count, arguments.seconds, spec) for count in COUNTS}
    rooms = {count: admission(count, arguments.seconds) for count in (16, 64)}
    line = {
        "benchmark": "plan",
        "plan_ms": {str(n): {k: v for k, v in p.items()} for n, p in found.items()},
        "admission_ms": {str(n): p for n, p in rooms.items()},
        "within_limits": all(
            found[n][case]["p50"] <= most
            for n, most in LIMITS.items()
            for case in ("fits", "does_not_fit")
        ),
    }
    if not arguments.json:
        for n, p in found.items():
            print(f"{n:5} streams  " + "  ".join(f"{k} {v}" for k, v in p.items()))
    print(json.dumps(line))


if __name__ == "__main__":
    main()
