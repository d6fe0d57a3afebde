"""The baseline that many servers are: one engine process per stream, all on the same cores.

Every process loads the model, serves one stream alone and counts its frames; all start to count
together. The operating system shares the cores. What it is not: the policy of that name, which acts
the same inside one engine (policies/process_per_stream.py).

Run as a module it is one of those processes: it says "ready" when its engine is warm, begins when
it is told to on standard input, and prints its figures as one JSON line.
"""

import json
import subprocess
import sys
import time
from typing import Any

import psutil

from onbeat.models.registry import load_model
from onbeat.server.engine.bench import JOIN_SECONDS, run_streams

PROCESS_BYTES = 700_000_000
"""What a process with torch and the embedded model may take."""
Child = subprocess.Popen[str]


def room_for_processes() -> int:
    """Processes whose memory is free now."""
    return int(psutil.virtual_memory().available // PROCESS_BYTES)


def run_processes(model_name: str, *, streams: int, seconds: float) -> dict[str, Any]:
    """`run_streams` of one stream in each of `streams` processes; figures of all of them together.

    Raises RuntimeError if a process ends without a result.
    """
    children = [_start(model_name, seconds) for _ in range(streams)]
    try:
        for child in children:
            _hear(child)
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
            time.sleep(JOIN_SECONDS)
        return _together([json.loads(_hear(child)) for child in children])
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _start(model_name: str, seconds: float) -> Child:
    command = [sys.executable, "-m", __name__, model_name, str(seconds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _hear(child: Child) -> str:
    assert child.stdout is not None
    text = child.stdout.readline()
    if not text:
        raise RuntimeError(f"a process of the benchmark ended: status {child.wait()}")
    return text


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


def main() -> None:
    def begin() -> None:
        print("ready", flush=True)
        sys.stdin.readline()

    result = run_streams(
        load_model(sys.argv[1]),
        streams=1,
        seconds=float(sys.argv[2]),
        policy="fcfs-chunk",
        admission=False,
        begin=begin,
    )
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
