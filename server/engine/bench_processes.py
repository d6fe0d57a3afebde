"""The baseline that many servers are: one engine process per stream, all on the same cores.

Every process loads the model, serves one stream alone and counts its frames; all start to count
together. The operating system shares the cores. What it is not: the policy of that name, which acts
the same inside one engine (policies/process_per_stream.py).
"""

import multiprocessing
import queue
import time
from typing import Any

import psutil

from onbeat.models.registry import load_model
from onbeat.server.engine.bench import JOIN_SECONDS, run_streams

PROCESS_BYTES = 700_000_000
"""What a process with torch and the embedded model may take."""
START_SECONDS, LATE_SECONDS = 180.0, 60.0


def room_for_processes() -> int:
    """Processes whose memory is free now."""
    return int(psutil.virtual_memory().available // PROCESS_BYTES)


def run_processes(model_name: str, *, streams: int, seconds: float) -> dict[str, Any]:
    """`run_streams` of one stream in each of `streams` processes; figures of all of them together.

    Raises RuntimeError if a process ends without a result.
    """
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    gate = context.Barrier(streams)
    children = [
        context.Process(target=_serve, args=(model_name, i, seconds, gate, results), daemon=True)
        for i in range(streams)
    ]
    for child in children:
        child.start()
    try:
        found = [results.get(timeout=START_SECONDS + seconds + LATE_SECONDS) for _ in children]
    except queue.Empty as error:
        raise RuntimeError(f"processes: not all of {streams} gave a result") from error
    finally:
        for child in children:
            child.join(timeout=5.0)
            child.kill()
    return _together(found)


def _serve(model_name: str, index: int, seconds: float, gate: Any, results: Any) -> None:
    def begin() -> None:
        gate.wait(START_SECONDS)
        time.sleep(index * JOIN_SECONDS)

    result = run_streams(
        load_model(model_name),
        streams=1,
        seconds=seconds,
        policy="fcfs-chunk",
        admission=False,
        begin=begin,
    )
    results.put({k: v for k, v in result.items() if isinstance(v, int | float)})


def _together(found: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = [r["on_time_frame_ratio"] for r in found]
    return {
        "streams_offered": len(found),
        "streams_admitted": len(found),
        "streams_clean": sum(r["streams_clean"] for r in found),
        "on_time_frame_ratio": round(sum(ratios) / len(ratios), 4),
        "worst_stream_ratio": min(ratios),
        "steps_mean": round(sum(r["steps_mean"] for r in found) / len(found), 3),
    }
