"""Recordings: whole files with the right pictures, length and sound; cut ones; limits."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import av
import numpy as np
import pytest

from onbeat.server.jobs.artifacts import Artifacts
from onbeat.server.jobs.keeping import NoRoom
from onbeat.server.jobs.recording import RecordingWriter, Written
from onbeat.server.jobs.recordings import LEAST_ROOM, RecordingInfo, RecordingStore
from onbeat.server.jobs.result_store import LocalFile
from tests.server.jobs.packets import FPS, SIZE, feed

FORMATS = [("H264", "mp4"), ("VP8", "webm")]


def store_in(
    folder: Path,
    *,
    max_bytes: int = 1 << 40,
    min_free: int = 0,
    artifacts: Artifacts | None = None,
) -> RecordingStore:
    artifacts = artifacts or Artifacts(folder.parent / f"{folder.name}-results")
    return RecordingStore(folder, artifacts, max_bytes=max_bytes, min_free=min_free)


def file_of(store: RecordingStore, info: RecordingInfo) -> Path:
    """The finished file."""
    found = store._artifacts.find(info.id, "video", info.format)
    assert isinstance(found, LocalFile)
    return found.path


def info_of(codec: str, kind: str) -> RecordingInfo:
    return RecordingInfo(
        id=f"recording_{codec}",
        session_id="session_1",
        status="recording",
        format=kind,  # type: ignore[arg-type]
        video_codec=codec,
        audio=True,
        width=SIZE,
        height=SIZE,
        fps=FPS,
        created_at=1,
    )


def writer_of(
    store: RecordingStore, info: RecordingInfo, *, max_seconds: float = 60.0, room: int = 1
) -> tuple[RecordingWriter, list[Written]]:
    ends: list[Written] = []
    writer = RecordingWriter(
        store.part(info), audio=True, max_seconds=max_seconds, room=lambda: room, ended=ends.append
    )
    return writer, ends


def looked_at(path: Path) -> tuple[list[float], list[float], float]:
    """Of a file: the instants of its pictures, of its bright ones, and of its first loud sample."""
    with av.open(str(path)) as given:
        pictures = [(f.time or 0.0, f.to_ndarray()[:SIZE].mean()) for f in given.decode(video=0)]
    loud = -1.0
    with av.open(str(path)) as given:
        for frame in given.decode(audio=0):
            high = np.abs(frame.to_ndarray().ravel()) > 0.1
            if high.any():
                loud = (frame.time or 0.0) + int(high.argmax()) / frame.sample_rate
                break
    return [t for t, _ in pictures], [t for t, mean in pictures if mean > 150], loud


@pytest.mark.parametrize(("codec", "kind"), FORMATS)
def test_a_recording_plays_with_its_length_and_its_sound(
    tmp_path: Path, codec: str, kind: str
) -> None:
    store, info = store_in(tmp_path), info_of(codec, kind)
    store.write(info)
    writer, ends = writer_of(store, info)
    feed(writer, codec, frames=80, first=17, flash=40)
    writer.stop()
    writer.join()
    assert ends == [Written(reason="stopped", frames=80, seconds=80 / FPS)]
    done = store.finish(info, "stopped")
    assert (done.status, done.frames, done.seconds) == ("completed", 80, 80 / FPS)
    path = file_of(store, done)
    times, bright, loud = looked_at(path)
    assert times == pytest.approx([n / FPS for n in range(80)], abs=0.002)
    assert bright == pytest.approx([40 / FPS], abs=0.002)
    assert loud == pytest.approx(40 / FPS, abs=1 / FPS)
    with av.open(str(path)) as given:
        assert given.duration is not None
        assert given.duration / av.time_base == pytest.approx(80 / FPS, abs=1 / FPS)
    assert [p.name for p in tmp_path.iterdir()] == [f"{info.id}.json"]
    assert path.name == f"{info.id}.{kind}"
    assert store_in(tmp_path).get(info.id) == done


@pytest.mark.parametrize(("codec", "kind"), FORMATS)
def test_gaps_keep_their_length(tmp_path: Path, codec: str, kind: str) -> None:
    store, info = store_in(tmp_path), info_of(codec, kind)
    writer, _ = writer_of(store, info)
    feed(writer, codec, frames=60, first=0, flash=50, without=range(10, 30))
    writer.stop()
    writer.join()
    done = store.finish(info, "stopped")
    times, bright, loud = looked_at(file_of(store, done))
    assert len(times) == 40 and done.seconds == pytest.approx(3.0, abs=0.001)
    assert bright == pytest.approx([2.5], abs=0.002)
    assert loud == pytest.approx(2.5, abs=1 / FPS)


@pytest.mark.parametrize(("codec", "kind"), FORMATS)
def test_a_killed_process_leaves_a_file_that_plays(tmp_path: Path, codec: str, kind: str) -> None:
    store, info = store_in(tmp_path), info_of(codec, kind)
    store.write(info)
    command = [sys.executable, "-m", "tests.server.jobs.packets", str(store.part(info)), codec]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    fed = int(line)
    with av.open(str(store.part(info))) as given:
        assert fed - len(list(given.decode(video=0))) <= 2 * FPS
    again = store_in(tmp_path)
    assert again.settle() == 1
    done = again.get(info.id)
    assert done is not None and (done.status, done.reason) == ("completed", "server_ended")
    times, _, loud = looked_at(file_of(again, done))
    assert len(times) == done.frames >= fed - 2 * FPS
    assert done.seconds == pytest.approx(done.frames / FPS, abs=1 / FPS)
    assert loud == pytest.approx(1.0, abs=1 / FPS)


@pytest.mark.parametrize(("codec", "kind"), FORMATS)
def test_a_file_cut_anywhere_is_made_whole(tmp_path: Path, codec: str, kind: str) -> None:
    store, info = store_in(tmp_path), info_of(codec, kind)
    writer, _ = writer_of(store, info)
    feed(writer, codec, frames=80, first=0, flash=20)
    writer.stop()
    writer.join()
    whole = store.part(info).read_bytes()
    for share in (0.97, 0.8, 0.61):
        store.part(info).write_bytes(whole[: int(share * len(whole))])
        done = store.finish(info, "server_ended")
        assert done.status == "completed" and done.frames > 0
        assert len(looked_at(file_of(store, done))[0]) == done.frames


def test_what_holds_no_picture_has_failed(tmp_path: Path) -> None:
    store, info = store_in(tmp_path), info_of("VP8", "webm")
    store.write(info)
    assert store_in(tmp_path).settle() == 1
    done = store_in(tmp_path).get(info.id)
    assert done is not None and (done.status, done.reason) == ("failed", "no_picture")
    store.part(info).write_bytes(b"not a film")
    assert store.finish(info, "stopped").status == "failed"
    assert not store.part(info).exists()


def test_limits_end_a_recording_with_what_it_has(tmp_path: Path) -> None:
    store, info = store_in(tmp_path), info_of("VP8", "webm")
    writer, ends = writer_of(store, info, max_seconds=1.0)
    feed(writer, "VP8", frames=60, first=0, flash=5)
    writer.join()
    assert ends[0].reason == "time_limit" and ends[0].frames == FPS
    assert store.finish(info, "time_limit").seconds == pytest.approx(1.0, abs=0.001)


def test_a_full_disk_ends_a_recording_with_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.server.jobs.recording.LOOK_SECONDS", 0.0)
    store, info = store_in(tmp_path), info_of("H264", "mp4")
    writer, ends = writer_of(store, info, room=0)
    feed(writer, "H264", frames=10, first=0, flash=5)
    writer.join()
    assert ends[0].reason == "storage_full" and ends[0].frames >= 1
    assert store.finish(info, "storage_full").status == "completed"


def test_a_disk_that_fails_ends_it(tmp_path: Path) -> None:
    store, info = store_in(tmp_path / "gone"), info_of("VP8", "webm")
    (tmp_path / "gone").rmdir()
    before = set(threading.enumerate())
    writer, ends = writer_of(store, info)
    feed(writer, "VP8", frames=10, first=0, flash=5)
    writer.join()
    assert ends == [Written(reason="storage_failed", frames=0, seconds=0.0)]
    assert not [each for each in set(threading.enumerate()) - before if each.name == "recording"]


def test_there_must_be_room(tmp_path: Path) -> None:
    (tmp_path / "old.webm").write_bytes(bytes(1000))
    with pytest.raises(NoRoom, match="ONBEAT_RECORDINGS_MAX_MIB"):
        store_in(tmp_path, max_bytes=LEAST_ROOM).check_room()
    with pytest.raises(NoRoom, match="ONBEAT_RECORDINGS_MIN_FREE_MIB"):
        store_in(tmp_path, min_free=1 << 60).check_room()
    store = store_in(tmp_path)
    store.check_room()
    assert store.room() > 0


def test_a_description_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "recording_x.json").write_text("{")
    assert store_in(tmp_path).all() == []
    assert (tmp_path / "recording_x.json").exists()
