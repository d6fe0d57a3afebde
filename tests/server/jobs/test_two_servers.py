"""Two servers on one Postgres: each job runs once, and a dead server's jobs move to the other."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from onbeat.server.jobs.events import JobEvent
from onbeat.server.jobs.store import JobStore
from onbeat.server.jobs.table import jobs
from tests.server.jobs.postgres import new_database
from tests.server.jobs.targets import PATIENCE, Zygote

LEASE_SECONDS = 3.0
JOBS, FRAMES = 4, 100
EARLY = 8
"""Chunks after which a job is still far from its end."""


def told(store: JobStore) -> list[list[JobEvent]]:
    jobs = store.page(after=None, limit=1000, newest_first=False)
    return [store.events(job) for job in jobs]


def all_done(store: JobStore) -> None:
    began = time.monotonic()
    while store.counts()["completed"] < len(store.known_ids()):
        assert time.monotonic() - began < PATIENCE, store.counts()
        time.sleep(0.1)


def until_busy(store: JobStore, host: str, add: Callable[[], object]) -> None:
    """Until a server is in the middle of a job; `add` gives one more when the other was quicker."""
    mine = sa.select(jobs.c.id).where(
        jobs.c.state == "in_progress",
        jobs.c.lease_owner.startswith(f"{host}/"),
        jobs.c.checkpoint.between(1, EARLY),
    )
    began = time.monotonic()
    while True:
        with store.database.reading() as connection:
            if connection.execute(mine).first() is not None:
                return
        assert time.monotonic() - began < PATIENCE, store.counts()
        if not store.known_ids(ended=False):
            add()
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_job_runs_once_and_moves_when_its_server_dies(tmp_path: Path, postgres: str) -> None:
    url = new_database(postgres, "two_servers")
    zygote, store = Zygote(), JobStore(url)
    try:
        one, two = (
            zygote.start(
                {
                    "data_dir": str(tmp_path / host),
                    "artifacts": str(tmp_path / "shared"),
                    "database_url": url,
                    "lease_seconds": LEASE_SECONDS,
                    "max_jobs_running": 2,
                },
                host=host,
                chunk_seconds=pace,
            )
            for host, pace in (("one", 0.5), ("two", 0.05))
        )
        for seed in range(JOBS):
            (one, two)[seed % 2].client.add(seed, FRAMES)
        until_busy(store, "one", lambda: one.client.add(JOBS, FRAMES))
        one.kill()
        killed_at = time.time()
        all_done(store)
        two.kill()
        events = told(store)
    finally:
        store.close()
        zygote.close()
    kinds = [Counter(event.kind for event in each) for each in events]
    back = [event.at - killed_at for each in events for event in each if event.kind == "requeued"]
    moved = [after for after in back if after > 0]  # a lease may lapse on a busy machine, too
    assert all(each["completed"] == 1 for each in kinds)
    assert all(each["started"] == 1 + each["requeued"] for each in kinds), kinds
    assert 1 <= len(moved) <= 2, "what the dead server was at"
    assert max(moved) < 10 * (LEASE_SECONDS + 5), "at most lease + 5 s on a quiet machine"
