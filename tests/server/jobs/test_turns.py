"""Whose job is next: priorities within a key, turns between keys, and no clock that matters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from onbeat.server.jobs.database import open_database
from onbeat.server.jobs.job import Job, JobRequest
from onbeat.server.jobs.leases import LeaseWatch
from onbeat.server.jobs.queueing import LONGEST_DELAY, first_of
from onbeat.server.jobs.room import QueueFull, Room
from onbeat.server.jobs.store import JobStore
from tests.server.jobs.test_migrations import first_version


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def request(owner: str = "", priority: int = 0, frames: int = 10) -> JobRequest:
    return JobRequest(
        model="toybox",
        prompt="a ball",
        seed=1,
        steps=2,
        frames=frames,
        fps=20,
        width=32,
        height=32,
        owner=owner,
        priority=priority,
    )


@pytest.fixture
def wall() -> Clock:
    return Clock()


@pytest.fixture
def steady() -> Clock:
    return Clock()


@pytest.fixture
def store(place: Path | str, wall: Clock, steady: Clock) -> Iterator[JobStore]:
    store = JobStore(place, wall, monotonic=steady, lease_seconds=30)
    yield store
    store.close()


def order(store: JobStore) -> list[Job]:
    found = []
    while (job := store.claim("me")) is not None:
        found.append(job)
    return found


def test_higher_priorities_of_a_key_go_first(store: JobStore) -> None:
    for priority in (0, -1, 2, 2, 0):
        store.add(request(priority=priority))
    jobs = store.page(after=None, limit=9, newest_first=False)
    places = store.positions(jobs)
    assert [places[job.id] for job in jobs] == [3, 5, 1, 2, 4]
    assert [job.number for job in order(store)] == [3, 4, 1, 5, 2]


def test_keys_take_turns_however_much_one_asks(store: JobStore) -> None:
    for _ in range(6):
        store.add(request("greedy", priority=10))
    for _ in range(2):
        store.add(request("modest", priority=-10))
    jobs = store.page(after=None, limit=9, newest_first=False)
    places = store.positions(jobs)
    assert places[jobs[6].id] == 2 and places[jobs[7].id] == 4
    owners = [job.request.owner for job in order(store)]
    assert owners == ["greedy", "modest", "greedy", "modest", *["greedy"] * 4]


def test_a_turn_is_as_long_as_the_job(store: JobStore) -> None:
    for _ in range(3):
        store.add(request("long", frames=100))
    for _ in range(12):
        store.add(request("short", frames=20))
    owners = [job.request.owner for job in order(store)]
    assert owners[:12].count("long") == 2 and owners[:12].count("short") == 10


def test_a_key_that_was_away_gets_no_more_than_its_share(store: JobStore) -> None:
    for _ in range(20):
        store.add(request("early"))
    for _ in range(10):
        store.claim("me")
    for _ in range(4):
        store.add(request("late"))
    assert [job.request.owner for job in order(store)][:6].count("late") == 3


def test_the_next_job_is_found_without_sorting_all_that_wait(tmp_path: Path) -> None:
    """A claim holds the lock that every new job waits for."""
    for name in ("new", "old"):
        if name == "old":
            first_version(tmp_path / "old.sqlite3")
        database = open_database(tmp_path / f"{name}.sqlite3")
        query = first_of("a", 1000.0).compile(
            dialect=database.engine.dialect, compile_kwargs={"literal_binds": True}
        )
        with database.reading() as connection:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}").all()
        database.close()
        steps = [row[3] for row in plan]
        assert len(steps) == 1 and "USING INDEX jobs_by_turn" in steps[0], steps


def test_a_full_queue_takes_nothing(store: JobStore) -> None:
    one = Room(most=1)
    store.add(request(), room=one)
    with pytest.raises(QueueFull, match="1"):
        store.add(request(), room=one)
    assert store.counts()["queued"] == 1
    store.claim("me")
    store.add(request(), room=one)


def test_what_is_written_beside_a_job_stands_or_falls_with_it(store: JobStore) -> None:
    def broken(_connection: object, _job: Job) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError):
        store.add(request(), [broken])
    assert not store.known_ids()
    seen: list[str] = []
    job = store.add(request(), [lambda _, job: seen.append(job.id)])
    assert seen == [job.id]


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_clock_steps_neither_end_a_lease_nor_keep_it(
    store: JobStore, wall: Clock, steady: Clock, step: float
) -> None:
    store.add(request())
    job = store.claim("me")
    assert job is not None
    assert not store.recover(lambda _: False)
    wall.at += step
    steady.at += 29
    assert not store.recover(lambda _: False), "its lease is not over"
    store.renew(job)
    assert not store.recover(lambda _: False)
    steady.at += 29
    assert not store.recover(lambda _: False), "it has been renewed"
    steady.at += 2
    assert len(store.recover(lambda _: False)) == 1, "it went silent"


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_clock_steps_hold_no_job_back(store: JobStore, wall: Clock, step: float) -> None:
    store.add(request())
    job = store.claim("me")
    assert job is not None
    store.put_back(job, delay=2 * LONGEST_DELAY, counted=False)
    wall.at += step
    assert store.claim("me") is not None, "put off by a clock that has been set back since"


def test_no_time_of_a_job_is_negative(store: JobStore, wall: Clock) -> None:
    store.add(request())
    wall.at -= 3600
    job = store.claim("me")
    assert job is not None and job.started_at is not None
    wall.at -= 3600
    done = store.complete(job, None, run_seconds=1.5)
    assert done.completed_at is not None
    assert done.created_at <= job.started_at <= done.completed_at
    assert done.run_seconds == 1.5


def test_what_happened_is_told_in_order(store: JobStore) -> None:
    job = store.add(request())
    first = store.claim("me")
    assert first is not None
    store.advance(first, checkpoint=2, progress=0.5, detail={"chunk": 2})
    store.put_back(first)
    second = store.claim("me")
    assert second is not None
    store.complete(second, None)
    told = store.events(job)
    kinds = [event.kind for event in told]
    assert kinds == ["queued", "started", "progress", "requeued", "started", "completed"]
    assert [event.seq for event in told] == [1, 2, 3, 4, 5, 6]
    assert told[2].data == {"progress": 0.5, "checkpoint": 2, "chunk": 2}
    assert store.events(job, after=4) == told[4:]
    store.delete(job.id)
    assert not store.events(job)


def test_getting_further_takes_strikes_off(store: JobStore) -> None:
    store.add(request())
    for chunk in range(1, 30):
        job = store.claim("me")
        assert job is not None and job.strikes == 1
        store.advance(job, checkpoint=chunk, progress=0.1, detail={})
        store.put_back(job)
    assert store.counts()["queued"] == 1


def test_results_and_what_becomes_of_them(store: JobStore, wall: Clock) -> None:
    store.add(request())
    job = store.claim("me")
    assert job is not None
    files = {"video": {"key": "a.mp4", "bytes": 9}}
    done = store.complete(job, None, result=files, expires_at=wall.at + 10, stages={"join": 1.0})
    assert (done.result, done.stages) == (files, {"join": 1.0})
    assert not store.results(expiring_before=wall.at + 5)
    assert [found.id for found in store.results(expiring_before=wall.at + 11)] == [job.id]
    assert store.forget_result(job.id) and not store.forget_result(job.id)
    assert not store.results()
    gone = store.get(job.id)
    assert gone is not None and gone.expired and gone.state == "completed"


def test_a_watch_forgets_who_moves() -> None:
    steady = Clock()
    watch = LeaseWatch(30, steady)
    assert not watch.lapsed([(1, 1, 0), (2, 1, 0)])
    steady.at += 20
    assert not watch.lapsed([(1, 1, 1), (2, 1, 0)])
    steady.at += 20
    assert watch.lapsed([(1, 1, 1), (2, 1, 0)]) == {2}
    assert not watch.lapsed([(1, 2, 1)]), "another claim"
    assert not watch.lapsed([])
