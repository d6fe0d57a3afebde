"""One try at a job against a hand-driven engine: back-pressure, files, disk trouble."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from onbeat.server.engine.messages import (
    ChunkReady,
    CloseStream,
    Command,
    ControlStream,
    EngineReady,
    OpenStream,
    StageTimes,
)
from onbeat.server.jobs import attempt as module
from onbeat.server.jobs.artifacts import Artifacts
from onbeat.server.jobs.attempt import Attempt, JobFailed, Sink
from onbeat.server.jobs.job import Job, JobRequest
from onbeat.server.jobs.store import JobStore
from tests.server.api.fake_engine import CHUNK_FRAMES, SIZE, FakeEngine, payload

FRAMES = 200


class Door:
    """Delivers every chunk the moment the stream is opened, as a fast engine would."""

    state = "ready"

    def __init__(self, ready: EngineReady) -> None:
        self.ready: EngineReady | None = ready
        self.sent: list[Command] = []
        self.sinks: dict[str, Sink] = {}

    def send(self, command: Command) -> None:
        self.sent.append(command)
        if isinstance(command, OpenStream):
            for chunk in range(command.total_chunks or 0):
                event = ready_chunk(command.stream_id, chunk)
                self.sinks[command.stream_id](event, payload(command.seed, chunk))

    def attach(self, stream_id: str, sink: Sink) -> None:
        self.sinks[stream_id] = sink

    def detach(self, stream_id: str) -> None:
        del self.sinks[stream_id]


def ready_chunk(stream_id: str, chunk: int) -> ChunkReady:
    return ChunkReady(
        stream_id=stream_id,
        chunk=chunk,
        revision=0,
        slot=0,
        frames=CHUNK_FRAMES,
        frame_bytes=SIZE * SIZE * 3 // 2,
        samples=4800,
        latent_bytes=0,
        steps=2,
        playout_at=0.0,
        ready_at=0.0,
        on_time=True,
        stages=StageTimes(released_at=0.0, queue=0.0, denoise=0.0, decode=0.0, convert=0.0),
        last=False,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    store = JobStore(tmp_path / "jobs.sqlite3")
    yield store
    store.close()


@pytest.fixture
def door() -> Door:
    engine = FakeEngine()
    return Door(engine.announcement())


def claimed(store: JobStore, width: int = SIZE) -> Job:
    asked = JobRequest(
        model="toybox", prompt="x", seed=1, steps=2, frames=FRAMES, fps=20, width=width, height=SIZE
    )
    store.add(asked)
    job = store.claim("me")
    assert job is not None
    return job


def test_a_slow_encoder_pauses_the_stream(
    store: JobStore, door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES", 1)
    artifacts = Artifacts(tmp_path / "artifacts")
    assert door.ready is not None
    done = Attempt(claimed(store), door.ready, door, store, artifacts).run()
    assert done.state == "completed"
    pauses = [c.paused for c in door.sent if isinstance(c, ControlStream)]
    assert pauses[:2] == [True, False] and pauses[-1] is False
    assert isinstance(door.sent[-1], CloseStream) and not door.sinks
    assert sorted(p.suffix for p in (tmp_path / "artifacts").iterdir()) == [".jpg", ".mp4", ".webp"]


def test_a_job_for_another_size_fails_by_name(store: JobStore, door: Door, tmp_path: Path) -> None:
    assert door.ready is not None
    attempt = Attempt(claimed(store, 64), door.ready, door, store, Artifacts(tmp_path / "a"))
    with pytest.raises(JobFailed, match="64x32"):
        attempt.run()
    assert not door.sent


def test_a_folder_that_cannot_be_written_leaves_nothing_behind(
    store: JobStore, door: Door, tmp_path: Path
) -> None:
    assert door.ready is not None
    artifacts = Artifacts(tmp_path / "a")
    (tmp_path / "a").rmdir()
    (tmp_path / "a").write_bytes(b"in the way")
    with pytest.raises(OSError):
        Attempt(claimed(store), door.ready, door, store, artifacts).run()
    assert not door.sinks


def test_what_an_ended_process_left_is_swept(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    for name in ("video_a.mp4", "video_b.mp4", "video_a.1.mp4.part", "video_a.jpg"):
        (tmp_path / name).write_bytes(b"x")
    artifacts.sweep({"video_a"})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["video_a.jpg", "video_a.mp4"]
    assert artifacts.size() == 2
    artifacts.remove("video_a")
    assert not list(tmp_path.iterdir())
