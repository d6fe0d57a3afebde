"""What other weights began is not gone on with, and whoever follows the job is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from onbeat.server.engine.messages import OpenStream
from onbeat.server.jobs.artifacts import Artifacts
from onbeat.server.jobs.attempt import Attempt, Stopped
from onbeat.server.jobs.events import JobEvent
from onbeat.server.jobs.job import Job
from onbeat.server.jobs.store import JobStore
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_engine import payload as chunk_payload
from tests.server.jobs.test_attempt import Door, claimed, ready_chunk

MADE = 7


class ShortDoor(Door):
    """Gives a few chunks and then nothing: the attempt is stopped."""

    attempt: Attempt

    def send(self, command: object) -> None:
        if isinstance(command, OpenStream):
            for chunk in range(MADE):
                event = ready_chunk(command.stream_id, chunk)
                self.sinks[command.stream_id](event, chunk_payload(command.seed, chunk))
            self.attempt.stop()


class ResumingDoor(Door):
    """Begins where the stream's snapshot says."""

    def send(self, command: object) -> None:
        if isinstance(command, OpenStream):
            self.sent.append(command)
            first = 0 if command.snapshot is None else MADE
            for chunk in range(first, command.total_chunks or 0):
                event = ready_chunk(command.stream_id, chunk)
                self.sinks[command.stream_id](event, chunk_payload(command.seed, chunk))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    store = JobStore(tmp_path / "jobs.sqlite3")
    yield store
    store.close()


def door(kind: type[Door], weights: str) -> Door:
    engine = FakeEngine()
    engine.weights = weights
    return kind(engine.announcement())


def stopped(store: JobStore, artifacts: Artifacts, weights: str) -> None:
    """A job whose first attempt made a few chunks."""
    first = door(ShortDoor, weights)
    assert isinstance(first, ShortDoor) and first.ready is not None
    attempt = first.attempt = Attempt(claimed(store), first.ready, first, store, artifacts)
    with pytest.raises(Stopped):
        attempt.run()
    store.put_back(attempt.job, counted=False)


def again(store: JobStore, artifacts: Artifacts, weights: str) -> tuple[Job, OpenStream]:
    second = door(ResumingDoor, weights)
    job = store.claim("me")
    assert job is not None and second.ready is not None
    done = Attempt(job, second.ready, second, store, artifacts).run()
    (opened,) = (command for command in second.sent if isinstance(command, OpenStream))
    return done, opened


def restarts(store: JobStore, job: Job) -> list[JobEvent]:
    return [event for event in store.events(job) if event.kind == "restarted"]


def test_the_same_weights_go_on(store: JobStore, tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "artifacts")
    stopped(store, artifacts, "a")
    done, opened = again(store, artifacts, "a")
    assert opened.snapshot is not None and not restarts(store, done)
    assert done.state == "completed"


def test_other_weights_start_over_and_say_so(store: JobStore, tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "artifacts")
    stopped(store, artifacts, "a")
    done, opened = again(store, artifacts, "b")
    assert opened.snapshot is None and done.state == "completed"
    (told,) = restarts(store, done)
    assert told.data == {"reason": "other_weights", "lost_chunks": MADE}
    assert not list(artifacts.work.iterdir())


def test_a_job_whose_work_is_gone_says_so(store: JobStore, tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "artifacts")
    store_job = claimed(store)
    store.advance(store_job, checkpoint=5, progress=0.5, detail={})
    store.put_back(store_job, counted=False)
    done, opened = again(store, artifacts, "a")
    assert opened.snapshot is None and done.state == "completed"
    (told,) = restarts(store, done)
    assert told.data == {"reason": "work_lost", "lost_chunks": 5}
