"""How soon jobs of a killed server move to another on the same Postgres. JSON line last.

`python -m benchmarks.jobs.move [--kills 5] [--lease 30]`

Two servers with names of other machines, so that neither can see that the other's process is gone:
only the lease tells. One is killed with -9 in the middle of its jobs, again and again; from then to
each job's `requeued` event, and to its next `started`. Aim: lease + 5 s.
"""

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from onbeat.server.cli.flags import whole
from onbeat.server.jobs.store import JobStore
from onbeat.server.jobs.table import job_events, jobs
from tests.server.jobs.postgres import new_database, running
from tests.server.jobs.targets import PATIENCE, Target, Zygote
from tests.server.jobs.test_two_servers import until_busy

FRAMES, SLOTS = 400, 2


def held_by(store: JobStore, host: str) -> list[int]:
    query = sa.select(jobs.c.number).where(
        jobs.c.state == "in_progress", jobs.c.lease_owner.startswith(f"{host}/")
    )
    with store.database.reading() as connection:
        return [row.number for row in connection.execute(query)]


def events_since(store: JobStore, numbers: list[int], since: float) -> dict[str, list[float]]:
    """Seconds after `since`, by kind, of the first such event of each job."""
    query = sa.select(job_events).where(
        job_events.c.job.in_(numbers),
        job_events.c.at >= since,
        job_events.c.kind.in_(["requeued", "started"]),
    )
    first: dict[tuple[str, int], float] = {}
    with store.database.reading() as connection:
        for row in connection.execute(query.order_by(job_events.c.seq)):
            first.setdefault((row.kind, row.job), row.at - since)
    found: dict[str, list[float]] = {"requeued": [], "started": []}
    for (kind, _), seconds in first.items():
        found[kind].append(round(seconds, 2))
    return found


def measure(folder: Path, url: str, kills: int, lease: int) -> dict[str, Any]:
    zygote, store = Zygote(), JobStore(url)

    def start(host: str, slots: int) -> Target:
        settings = {
            "data_dir": str(folder / host),
            "artifacts": str(folder / "shared"),
            "database_url": url,
            "lease_seconds": float(lease),
            "max_jobs_running": slots,
        }
        return zygote.start(settings, host=host, chunk_seconds=0.1)

    requeued, started = list[float](), list[float]()
    stays = start("stays", 8 * SLOTS)
    try:
        for kill in range(kills):
            dies = start(f"dies{kill}", SLOTS)
            for seed in range(2 * SLOTS):
                dies.client.add(seed, FRAMES)
            until_busy(store, f"dies{kill}", lambda: None)
            mine = held_by(store, f"dies{kill}")
            dies.kill()
            at = time.time()
            found = _moved(store, mine, at)
            requeued += found["requeued"]
            started += found["started"]
    finally:
        stays.kill()
        store.close()
        zygote.close()
    return {
        "benchmark": "jobs.move",
        "lease_s": lease,
        "kills": kills,
        "jobs_moved": len(requeued),
        "requeued_after_s": sorted(requeued),
        "requeued_max_s": max(requeued),
        "started_max_s": max(started),
        "allowed_s": lease + 5,
    }


def _moved(store: JobStore, mine: list[int], at: float) -> dict[str, list[float]]:
    """Once all of them have moved and one has begun again."""
    began = time.monotonic()
    while True:
        found = events_since(store, mine, at)
        if len(found["requeued"]) == len(mine) and found["started"]:
            return found
        assert time.monotonic() - began < PATIENCE, store.counts()
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description="jobs of a dead server")
    parser.add_argument("--kills", type=whole(), default=5)
    parser.add_argument("--lease", type=whole(), default=30, help="seconds")
    args = parser.parse_args()
    with TemporaryDirectory() as folder, running() as url:
        found = measure(Path(folder), new_database(url, "jobs"), args.kills, args.lease)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
