"""Jobs eat only the slack: a live load with and without an endless queue of jobs.

    python benchmarks/engine/interference.py --json

On the real engine: the live streams' share of chunks on time without and with jobs, the slack that
they leave (lane time without jobs), what the jobs make of it, and whether a job beside the load
gives the bits of one alone. Prints, last, one JSON line. What it is not: throughput of jobs alone.
"""

import argparse
import json
import time
from typing import Any

from onbeat.models.registry import load_model
from onbeat.models.spec import CausalModel
from onbeat.server.cli.flags import number, whole
from onbeat.server.engine.bench_load import Load
from onbeat.server.engine.settings import EngineSettings

JOBS = 8
ENDLESS = 1_000_000
PROBE = "probe"
PROBE_SECONDS = 60.0


def probe(load: Load, chunks: int) -> list[bytes]:
    """Pictures and sound of one job, whatever runs beside it; its owner takes turns with theirs."""
    load.keep.add(PROBE)
    values = {"seed": 11, "prompt": "a blue square at night", "owner": PROBE}
    load.start([PROBE], "job", total_chunks=chunks, **values)
    load.read(PROBE_SECONDS, until=lambda: any(e.stream_id == PROBE for e in load.seen.ended))
    return load.kept[PROBE]


def measure(model: CausalModel, streams: int, seconds: float, chunks: int) -> dict[str, Any]:
    load = Load(model, EngineSettings(admission=False, max_jobs=JOBS + 1))
    try:
        alone = probe(load, chunks)
        load.keep.clear()
        live = [f"live {i}" for i in range(streams)]
        load.start(live)
        load.read(model.spec.chunk_seconds * (model.spec.window_chunks + 2))
        quiet = time.monotonic()
        load.read(seconds)
        jobs = time.monotonic()
        load.start([f"job {i}" for i in range(JOBS)], "job", total_chunks=ENDLESS)
        load.read(2.0)
        shared = time.monotonic()
        load.read(seconds)
        end = time.monotonic()
        load.seen.ended.clear()
        load.kept.clear()
        beside = probe(load, chunks)
    finally:
        load.close()
    cost = load.engine.engine.cost if load.engine.engine else None
    assert cost is not None
    made = [e for e in load.seen.ready if e.stream_id.startswith("job")]
    done = [e for e in made if shared <= e.ready_at < end]
    rows = sum(1 + e.steps for e in done)
    before, after = load.busy(quiet, jobs), load.busy(shared, end)
    without = load.seen.on_time(quiet, jobs, "live")
    beside_jobs = load.seen.on_time(shared, end, "live")
    slack = max(1e-9, 1.0 - before)
    return {
        "benchmark": "interference",
        "streams": streams,
        "on_time_without": round(without, 4),
        "on_time_with": round(beside_jobs, 4),
        "difference_points": round(100 * (without - beside_jobs), 3),
        "busy_without": round(before, 3),
        "busy_with": round(after, 3),
        "job_chunks_per_second": round(len(done) / (end - shared), 2),
        "slack_used_time": round((after - before) / slack, 3),
        "slack_used_rows": round(rows * cost.row_seconds(JOBS) / ((end - shared) * slack), 3),
        "steps_mean_with": mean_steps(load, shared, end),
        "job_chunks_compared": min(len(alone), len(beside)),
        "job_bits_equal": len(alone) == len(beside) == chunks and alone == beside,
    }


def mean_steps(load: Load, start: float, end: float) -> float:
    made, _ = load.seen.due(start, end, "live")
    return round(sum(e.steps for e in made) / max(1, len(made)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", type=whole(), default=12)
    parser.add_argument("--seconds", type=number, default=20.0, help="of each half")
    parser.add_argument("--chunks", type=whole(), default=10, help="of the job that is compared")
    parser.add_argument("--model", default="toybox")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    arguments = parser.parse_args()
    line = measure(
        load_model(arguments.model), arguments.streams, arguments.seconds, arguments.chunks
    )
    if not arguments.json:
        for name, value in line.items():
            print(f"{name:22} {value}")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
