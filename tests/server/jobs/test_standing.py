"""The queue in memory says what the rows say, whatever happened to them."""

import random
from pathlib import Path

import pytest
import sqlalchemy as sa

from onbeat.server.jobs import queueing
from onbeat.server.jobs.database import Database
from onbeat.server.jobs.job import Job
from onbeat.server.jobs.room import QueueFull, Room
from onbeat.server.jobs.store import JobStore
from tests.server.jobs.test_turns import request


def by_rows(store: JobStore, jobs: list[Job]) -> dict[str, int]:
    with store.database.reading() as connection:
        places = queueing.positions(connection, [job.number for job in jobs])
    return {job.id: places[job.number] for job in jobs}


def queued(store: JobStore) -> list[Job]:
    jobs = store.page(after=None, limit=1000, newest_first=False)
    return [job for job in jobs if job.state == "queued"]


def agree(store: JobStore) -> None:
    jobs = queued(store)
    assert store.positions(jobs) == by_rows(store, jobs)
    assert_each_once(store, jobs)


def assert_each_once(store: JobStore, jobs: list[Job]) -> list[str]:
    """Their ids by place."""
    places = {place: job_id for job_id, place in store.positions(jobs).items()}
    order = list(range(1, len(jobs) + 1))
    assert sorted(p for p in places if p is not None) == order and len(places) == len(jobs)
    return [places[place] for place in order]


@pytest.mark.parametrize("seed", range(4))
def test_places_are_those_of_the_rows(tmp_path: Path, seed: int) -> None:
    store, draw = JobStore(tmp_path / "jobs.sqlite3"), random.Random(seed)
    running: list[Job] = []
    for _ in range(60):
        what = draw.choice(["add", "add", "add", "claim", "put_back", "cancel", "delete"])
        waiting = queued(store)
        if what == "add":
            store.add(request(draw.choice("abc"), draw.randrange(-2, 3), draw.randrange(1, 90)))
        elif what == "claim" and (job := store.claim("me")) is not None:
            running.append(job)
        elif what == "put_back" and running:
            store.put_back(running.pop(), counted=False)
        elif what == "cancel" and waiting:
            store.cancel(draw.choice(waiting).id)
        elif what == "delete" and waiting:
            store.delete(draw.choice(waiting).id)
        agree(store)
    order = assert_each_once(store, queued(store))
    assert claimed(store) == order
    store.close()


def claimed(store: JobStore) -> list[str]:
    """All that wait, as they are taken."""
    found = []
    while (job := store.claim("me")) is not None:
        found.append(job.id)
    return found


def test_places_are_the_order_of_claims(place: Path | str) -> None:
    """Keys that ask for much and for little, in turn by frames, and the same after each claim."""
    store, draw = JobStore(place), random.Random(1)
    keys = "AAAAAABBCD"
    for owner in keys:
        store.add(request(owner, draw.randrange(-1, 2), 10 * draw.randrange(1, 4)))
    for _ in range(2):
        store.claim("me")
    jobs = queued(store)
    order = assert_each_once(store, jobs)
    places = store.positions(jobs)
    assert all(store.position(job) == places[job.id] for job in jobs), "asked for alone, too"
    assert claimed(store) == order
    assert store.positions(jobs) == dict.fromkeys(places), "who waits no more has no place"
    store.close()


def test_a_new_job_is_as_it_will_be_read(place: Path | str) -> None:
    store = JobStore(place)
    job = store.add(request("a", 3))
    assert store.get(job.id) == job
    store.close()


def test_a_queue_that_was_there_before_is_known(tmp_path: Path) -> None:
    first = JobStore(tmp_path / "jobs.sqlite3")
    for _ in range(3):
        first.add(request())
    first.close()
    store = JobStore(tmp_path / "jobs.sqlite3")
    assert store.position(store.add(request())) == 4
    with pytest.raises(QueueFull, match="4"):
        store.add(request(), room=Room(most=4))
    assert store.database.failures == 0, "a refusal costs no reading of the queue"
    store.close()


def test_a_write_that_fails_leaves_no_job_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JobStore(tmp_path / "jobs.sqlite3")
    store.add(request())

    def full(_: object) -> None:
        raise OSError("the disk is full")

    sa.event.listen(store.database.engine, "commit", full)
    with pytest.raises(OSError):
        store.add(request())
    sa.event.remove(store.database.engine, "commit", full)
    assert store.database.failures == 1
    assert store.position(store.add(request())) == 2
    agree(store)
    store.close()


def test_tidying_up_harms_nobody(tmp_path: Path) -> None:
    store = JobStore(tmp_path / "jobs.sqlite3")
    for _ in range(5):
        store.add(request())
        store.database.tidy()
    assert isinstance(store.database, Database) and len(queued(store)) == 5
    store.close()
