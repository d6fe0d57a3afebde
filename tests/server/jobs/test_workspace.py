"""What is made of a job so far: found again whole after any end, and the same file in the end."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from onbeat.server.jobs import journal, workspace
from onbeat.server.jobs.encode import Sound
from onbeat.server.jobs.job import Job, JobRequest
from onbeat.server.jobs.journal import JournalFile, Record
from onbeat.server.jobs.segments import KINDS, write_stills
from onbeat.server.jobs.store import JobStore
from onbeat.server.jobs.workspace import Layout, Workspace

SIDE, FPS, CHUNK, RATE, FRAMES = 32, 20, 4, 24_000, 38
SAMPLES = RATE * CHUNK // FPS
CHUNKS = -(-FRAMES // CHUNK)
REQUEST = JobRequest(
    model="toybox",
    prompt="a ball",
    seed=1,
    steps=2,
    frames=FRAMES,
    fps=FPS,
    width=SIDE,
    height=SIDE,
)
LAYOUT = Layout(request=REQUEST, chunk_frames=CHUNK, sample_rate=RATE, segment_chunks=3)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    store = JobStore(tmp_path / "jobs.sqlite3")
    store.add(REQUEST)
    claimed = store.claim("me")
    assert claimed is not None
    yield claimed
    store.close()


def again(job: Job, fence: int) -> Job:
    return replace(job, fence=fence)


def add(work: Workspace, until: int) -> None:
    while work.chunks < until:
        random = np.random.default_rng(work.chunks)
        frames = random.integers(16, 235, (CHUNK, SIDE * 3 // 2, SIDE), dtype=np.uint8)
        sound = random.integers(-9000, 9000, SAMPLES).astype(np.int16)
        work.add(frames, sound, bytes([work.chunks]) * 8)


def nothing() -> None:
    """Goes on."""


def joined(work: Workspace, target: Path) -> str:
    KINDS["mp4"].join(REQUEST, work.segments(), work.sound(), RATE, target, nothing)
    return hashlib.sha256(target.read_bytes()).hexdigest()


def test_a_job_interrupted_anywhere_gives_the_same_file(tmp_path: Path, job: Job) -> None:
    whole = Workspace(tmp_path / "whole", job, LAYOUT)
    add(whole, CHUNKS)
    expected = joined(whole, tmp_path / "whole.mp4")
    for end in range(1, CHUNKS + 1):
        root = tmp_path / f"cut{end}"
        add(Workspace(root, job, LAYOUT), end)  # killed: nothing is closed
        with Workspace(root, again(job, 2), LAYOUT) as work:
            assert work.chunks == end
            assert work.latents(2) == [bytes([n]) * 8 for n in range(max(0, end - 2), end)]
            add(work, CHUNKS)
            assert joined(work, tmp_path / "cut.mp4") == expected, f"cut behind chunk {end}"
            work.remove()
        assert not list(root.iterdir())


def test_the_joined_file_has_every_frame_and_all_of_the_sound(tmp_path: Path, job: Job) -> None:
    work = Workspace(tmp_path / "w", job, LAYOUT)
    add(work, CHUNKS)
    joined(work, tmp_path / "out.mp4")
    with av.open(str(tmp_path / "out.mp4")) as file:
        tick = file.streams.video[0].time_base
        assert tick is not None
        times = [frame.pts * tick * FPS for frame in file.decode(video=0) if frame.pts is not None]
    assert times == list(range(FRAMES))
    with av.open(str(tmp_path / "out.mp4")) as file:
        samples = sum(frame.samples for frame in file.decode(audio=0))
        assert "a ball" in file.metadata.values()
    assert abs(samples / 48_000 - FRAMES / FPS) < 0.06
    write_stills(REQUEST, work.segments(), 3 * CHUNK, tmp_path / "t.webp", tmp_path / "s.jpg")
    assert (tmp_path / "t.webp").stat().st_size and (tmp_path / "s.jpg").stat().st_size


def test_a_torn_record_and_what_follows_is_not_believed(tmp_path: Path, job: Job) -> None:
    work = Workspace(tmp_path / "w", job, LAYOUT)
    add(work, 5)
    (log,) = work.folder.glob("j*.log")
    data = bytearray(log.read_bytes())
    data[len(data) // 2 + 40] ^= 1
    log.write_bytes(data)
    assert Workspace(tmp_path / "w", again(job, 2), LAYOUT).chunks == 4


@pytest.mark.parametrize("left", ["pictures", "both"])
def test_an_end_between_pictures_log_and_journal(tmp_path: Path, job: Job, left: str) -> None:
    """All chunks of a segment are in the journal; its files are there, or half of them."""
    work = Workspace(tmp_path / "w", job, LAYOUT)
    add(work, 2)
    (log,) = work.folder.glob("j*.log")
    kept = log.read_bytes()
    add(work, 3)
    random = np.random.default_rng(2)
    frames = random.integers(16, 235, (CHUNK, SIDE * 3 // 2, SIDE), dtype=np.uint8)
    sound: Sound = random.integers(-9000, 9000, SAMPLES).astype(np.int16)
    last = Record(chunk=2, frames=frames.tobytes(), sound=sound.tobytes(), latents=bytes([2]) * 8)
    log.write_bytes(kept + last.packed())
    if left == "pictures":
        (work.folder / "s00000.log").unlink()
    with Workspace(tmp_path / "w", again(job, 2), LAYOUT) as second:
        assert second.chunks == 3
        add(second, CHUNKS)
        cut = joined(second, tmp_path / "cut.mp4")
    whole = Workspace(tmp_path / "whole", job, LAYOUT)
    add(whole, CHUNKS)
    assert cut == joined(whole, tmp_path / "whole.mp4")


def test_an_attempt_that_is_over_cannot_disturb_the_next(tmp_path: Path, job: Job) -> None:
    old = Workspace(tmp_path / "w", job, LAYOUT)
    add(old, 4)
    new = Workspace(tmp_path / "w", again(job, 2), LAYOUT)
    add(new, 5)
    with pytest.raises(OSError):
        add(old, 6)  # its folder is gone when it ends its segment
    add(new, CHUNKS)
    assert len(new.segments()) == 4 and all(path.exists() for path in new.segments())


def test_what_was_made_for_something_else_is_not_taken_over(tmp_path: Path, job: Job) -> None:
    add(Workspace(tmp_path / "w", job, LAYOUT), 4)
    other = Layout(request=REQUEST, chunk_frames=CHUNK, sample_rate=48_000, segment_chunks=3)
    assert Workspace(tmp_path / "w", again(job, 2), other).chunks == 0


def test_only_jobs_that_are_alive_keep_a_folder(tmp_path: Path, job: Job) -> None:
    add(Workspace(tmp_path / "w", job, LAYOUT), 1)
    workspace.sweep(tmp_path / "w", lambda: {job.id})
    assert len(workspace.folders(tmp_path / "w", job.id)) == 1
    workspace.sweep(tmp_path / "w", lambda: set())
    assert not list((tmp_path / "w").iterdir())
    workspace.sweep(tmp_path / "nowhere", lambda: set())


def test_a_journal_is_read_to_its_first_bad_record(tmp_path: Path) -> None:
    path = tmp_path / "j.log"
    assert not list(journal.read(path))
    file = JournalFile(path)
    records = [Record(chunk=n, frames=b"f" * n, sound=b"", latents=b"l") for n in range(3)]
    for record in records:
        file.append(record)
    file.close()
    size = path.stat().st_size
    for cut in range(size):
        path.write_bytes(b"".join(r.packed() for r in records)[:cut])
        found = list(journal.read(path))
        assert found == records[: len(found)]
    path.write_bytes(b"".join(r.packed() for r in records) + bytes(50))
    assert list(journal.read(path)) == records
