"""Jobs on disk: order, leases, fences, restarts. A clock that only moves when told to."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from onbeat.server.jobs.job import MAX_ATTEMPTS, JobRequest
from onbeat.server.jobs.owner import Owner
from onbeat.server.jobs.store import LEASE_SECONDS, JobStore, LeaseLost


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def request(seed: int = 1) -> JobRequest:
    return JobRequest(
        model="toybox", prompt="a ball", seed=seed, steps=2, frames=10, fps=20, width=32, height=32
    )


def never(_owner: str) -> bool:
    return False


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[JobStore]:
    store = JobStore(tmp_path / "deep" / "jobs.sqlite3", clock, monotonic=clock)
    yield store
    store.close()


def test_a_job_is_on_disk_before_anything_runs(store: JobStore, tmp_path: Path) -> None:
    job = store.add(request(seed=2**63 - 1))
    other = sqlite3.connect(tmp_path / "deep" / "jobs.sqlite3")
    rows = other.execute("SELECT id, state, seed FROM jobs").fetchall()
    mode = other.execute("PRAGMA journal_mode").fetchone()
    other.close()
    assert rows == [(job.id, "queued", 2**63 - 1)] and mode == ("wal",)


def test_the_oldest_is_claimed_first_and_once(store: JobStore) -> None:
    first, second = store.add(request()), store.add(request())
    claimed = [store.claim("me"), store.claim("you"), store.claim("me")]
    assert [job and job.id for job in claimed] == [first.id, second.id, None]
    assert claimed[0] is not None and (claimed[0].attempt, claimed[0].fence) == (1, 1)


def test_many_claimers_share_without_doubling(store: JobStore) -> None:
    wanted = {store.add(request()).id for _ in range(20)}
    got: list[str] = []

    def take() -> None:
        while (job := store.claim("x")) is not None:
            got.append(job.id)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 20 and set(got) == wanted


def test_who_lost_the_lease_changes_nothing(store: JobStore, clock: Clock) -> None:
    store.add(request())
    old = store.claim("old")
    assert old is not None
    assert not store.recover(never), "seen for the first time"
    clock.at += LEASE_SECONDS + 1
    assert len(store.recover(never)) == 1
    new = store.claim("new")
    assert new is not None and (new.attempt, new.fence) == (2, 2)
    for late in (
        lambda: store.renew(old, progress=0.5),
        lambda: store.complete(old, None),
        lambda: store.fail(old, "x", "y"),
        lambda: store.put_back(old),
    ):
        with pytest.raises(LeaseLost):
            late()
    store.complete(new, 12.0)
    done = store.get(new.id)
    assert done is not None and (done.state, done.peak_memory_mb) == ("completed", 12.0)


def test_a_renewed_lease_holds(store: JobStore, clock: Clock) -> None:
    store.add(request())
    job = store.claim("me")
    assert job is not None
    for _ in range(5):
        clock.at += LEASE_SECONDS - 1
        store.renew(job, progress=0.5)
        assert not store.recover(never)


def test_jobs_of_a_dead_owner_are_taken_up_at_once(store: JobStore) -> None:
    store.add(request())
    store.claim("dead")
    assert len(store.recover(lambda owner: owner == "dead")) == 1
    assert store.claim("me") is not None


def test_a_job_that_kills_every_engine_fails_in_the_end(store: JobStore) -> None:
    job = store.add(request())
    for _ in range(MAX_ATTEMPTS):
        claimed = store.claim("me")
        assert claimed is not None
        store.put_back(claimed)
    assert store.claim("me") is None
    failed = store.get(job.id)
    assert failed is not None and (failed.state, failed.error_code) == ("failed", "engine_lost")


def test_waiting_for_room_is_no_attempt(store: JobStore, clock: Clock) -> None:
    store.add(request())
    for _ in range(3 * MAX_ATTEMPTS):
        job = store.claim("me")
        assert job is not None and job.attempt == 1
        store.put_back(job, delay=2.0, counted=False)
        assert store.claim("me") is None, "not before the delay is over"
        clock.at += 2.1


def test_cancelling_ends_whatever_runs(store: JobStore) -> None:
    waiting, running = store.add(request()), store.add(request())
    store.cancel(waiting.id)
    claimed = store.claim("me")
    assert claimed is not None and claimed.id == running.id
    cancelled = store.cancel(running.id)
    assert cancelled is not None and cancelled.state == "cancelled"
    with pytest.raises(LeaseLost):
        store.complete(claimed, None)
    assert store.cancel("video_0") is None


def test_deleting(store: JobStore) -> None:
    job = store.add(request())
    claimed = store.claim("me")
    assert claimed is not None and store.delete(job.id) and not store.delete(job.id)
    assert store.get(job.id) is None
    with pytest.raises(LeaseLost):
        store.renew(claimed)


def test_places_in_the_queue(store: JobStore) -> None:
    added = [store.add(request()) for _ in range(3)]
    assert [store.position(job) for job in added] == [1, 2, 3]
    store.claim("me")
    first = store.get(added[0].id)
    assert first is not None and store.position(first) is None
    assert store.position(added[2]) == 2


def test_counts_name_every_state(store: JobStore) -> None:
    store.add(request())
    assert store.counts() == {
        "queued": 1,
        "in_progress": 0,
        "completed": 0,
        "failed": 0,
        "cancelled": 0,
    }


def test_pages(store: JobStore) -> None:
    ids = [store.add(request()).id for _ in range(4)]
    newest = store.page(after=None, limit=3, newest_first=True)
    assert [job.id for job in newest] == ids[:0:-1]
    rest = store.page(after=newest[-1].id, limit=3, newest_first=True)
    assert [job.id for job in rest] == [ids[0]]
    with pytest.raises(KeyError):
        store.page(after="video_0", limit=1, newest_first=True)


def test_everything_survives_reopening(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite3"
    first = JobStore(path)
    asked = request(seed=9)
    job = first.add(asked)
    first.close()
    second = JobStore(path)
    found = second.get(job.id)
    second.close()
    assert found is not None and found.request == asked


def test_owners_know_the_dead() -> None:
    me = Owner.here()
    assert not me.knows_dead(str(me))
    assert me.knows_dead(f"{me.host}/{me.pid}/{me.started}/other"), "an earlier one in this process"
    assert me.knows_dead(f"{me.host}/{2**22 - 1}/1/x"), "no such process"
    assert me.knows_dead(f"{me.host}/1/1/x"), "the number went to another process"
    assert not me.knows_dead("elsewhere/1/1/x"), "only the lease tells"
