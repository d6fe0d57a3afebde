"""How soon `onbeat serve` is ready again after kill -9, with jobs on record. JSON line last.

`python -m benchmarks.jobs.ready [--jobs 1000] [--waiting 40] [--kills 3]`

The whole command with the packaged model and its engine process: from the start of Python to the
first 200 of /ready. The first start, which measures the model's costs, is told apart.
"""

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from onbeat.server.cli.flags import whole
from onbeat.server.jobs.job import JobRequest
from onbeat.server.jobs.store import JobStore
from tests.e2e.server_process import ServerProcess

REQUEST = JobRequest(
    model="toybox", prompt="a red ball", seed=1, steps=2, frames=200, fps=20, width=128, height=128
)
WORK_SECONDS = 2.0
"""Between readiness and the kill."""


def fill(folder: Path, jobs: int, waiting: int) -> None:
    (folder / "data").mkdir()
    store = JobStore(folder / "data" / "jobs.sqlite3")
    for number in range(jobs):
        job = store.add(REQUEST)
        if number < jobs - waiting:
            store.cancel(job.id)
    store.close()


def measure(folder: Path, jobs: int, waiting: int, kills: int) -> dict[str, Any]:
    fill(folder, jobs, waiting)
    took = list[float]()
    for _ in range(kills + 1):
        server = ServerProcess(folder)
        try:
            took.append(round(server.wait_ready(), 2))
            time.sleep(WORK_SECONDS)
        finally:
            server.process.kill()
            server.process.wait(30)
    return {
        "benchmark": "jobs.ready",
        "jobs": jobs,
        "waiting": waiting,
        "first_start_s": took[0],
        "after_kill_s": took[1:],
        "after_kill_max_s": max(took[1:]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="readiness after kill -9")
    parser.add_argument("--jobs", type=whole(), default=1000)
    parser.add_argument("--waiting", type=whole(0), default=40, help="of them, not ended")
    parser.add_argument("--kills", type=whole(), default=3)
    args = parser.parse_args()
    with TemporaryDirectory() as name:
        print(json.dumps(measure(Path(name), args.jobs, args.waiting, args.kills)))


if __name__ == "__main__":
    main()
