"""Ended recordings lie where results do: whatever ends the process, and while that place fails."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import msgspec
import pytest

from onbeat.server.jobs.artifacts import Artifacts
from onbeat.server.jobs.file_store import FileStore
from onbeat.server.jobs.keeping import Limits, NoRoom
from onbeat.server.jobs.recordings import LEAST_ROOM, RecordingInfo, RecordingStore
from onbeat.server.jobs.result_store import LocalFile
from tests.server.jobs.packets import feed
from tests.server.jobs.test_recordings import FORMATS, file_of, info_of, store_in, writer_of

FRAMES = 12


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file as a writer leaves it."""
    store, info = store_in(tmp_path_factory.mktemp("written")), info_of("VP8", "webm")
    writer, _ = writer_of(store, info)
    feed(writer, "VP8", frames=FRAMES, first=0, flash=5)
    writer.stop()
    writer.join()
    return store.part(info).read_bytes()


def under_way(folder: Path, media: bytes, **more: Any) -> tuple[RecordingStore, RecordingInfo]:
    """A recording that has just ended."""
    store, info = store_in(folder, **more), info_of("VP8", "webm")
    store.write(info)
    store.part(info).write_bytes(media)
    return store, info


def whole(store: RecordingStore, info: RecordingInfo) -> bool:
    with av.open(str(file_of(store, info))) as given:
        return len(list(given.decode(video=0))) == FRAMES


class Killed(BaseException):
    """The end of the process."""


def test_a_process_may_end_at_every_step(
    tmp_path: Path, media: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Call k is not made any more, for every k, until a run passes untouched."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    for last in range(40):
        folder = tmp_path / f"{last}"
        store, info = under_way(folder, media)
        calls = iter(range(1000))

        def mortal(
            real: Callable[..., Any], calls: Any = calls, last: int = last
        ) -> Callable[..., Any]:
            def call(*arguments: Any, **names: Any) -> Any:
                if next(calls) >= last:
                    raise Killed
                return real(*arguments, **names)

            return call

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "utime", "unlink"):
                patch.setattr(os, name, mortal(getattr(os, name)))
            try:
                store.finish(info, "stopped")
                lived = True
            except Killed:
                lived = False
        again = store_in(folder)
        again.settle()
        done = again.get(info.id)
        assert done is not None and (done.status, done.frames) == ("completed", FRAMES), last
        assert whole(again, info) and file_of(again, info).stat().st_size == done.bytes
        assert [path.name for path in folder.iterdir()] == [f"{info.id}.json"], last
        if lived:
            break
    assert lived and last > 6


@pytest.mark.parametrize(("codec", "kind"), FORMATS)
def test_a_file_cut_anywhere_in_its_head_holds_no_other_up(
    tmp_path: Path, codec: str, kind: str
) -> None:
    store = store_in(tmp_path / "written")
    info = info_of(codec, kind)
    writer, _ = writer_of(store, info)
    feed(writer, codec, frames=FRAMES, first=0, flash=5)
    writer.stop()
    writer.join()
    head = store.part(info).read_bytes()[:1500]
    folder = tmp_path / "own"
    cut = store_in(folder)
    lengths = range(1, len(head), 37)
    for length in lengths:
        each = msgspec.structs.replace(info, id=f"recording_{length}")
        cut.write(each)
        cut.part(each).write_bytes(head[:length])
    after = store_in(folder)
    assert after.settle() == len(lengths) and after.settle() == 0
    for each in after.all():
        if each.status == "completed":
            with av.open(str(file_of(after, each))) as given:
                assert len(list(given.decode(video=0))) >= 1
        else:
            assert (each.status, each.frames) == ("failed", 0)


class Away(FileStore):
    """A place that cannot be reached for a while."""

    away = True

    def put(self, part: Path, name: str, media_type: str) -> None:
        if self.away:
            raise OSError("no route")
        super().put(part, name, media_type)


def test_a_place_that_fails_gets_the_file_later(tmp_path: Path, media: bytes) -> None:
    place = Away(tmp_path / "place")
    artifacts = Artifacts(tmp_path / "artifacts", store=place)
    store, info = under_way(tmp_path / "own", media, artifacts=artifacts)
    with pytest.raises(OSError, match="no route"):
        store.finish(info, "time_limit")
    waiting = store.get(info.id)
    assert waiting is not None and (waiting.status, waiting.reason) == ("finishing", "time_limit")
    assert store.settle() == 0 and store.path(info).exists()
    later = store_in(tmp_path / "own", artifacts=artifacts)
    place.away = False
    assert later.settle() == 1 and later.settle() == 0
    done = later.get(info.id)
    assert done is not None and (done.status, done.reason) == ("completed", "time_limit")
    assert whole(later, info) and not later.path(info).exists()


def test_a_file_that_is_not_kept_any_more_is_told(tmp_path: Path, media: bytes) -> None:
    store, info = under_way(tmp_path / "own", media)
    store.finish(info, "stopped")
    assert store.expire() == 0
    store._artifacts.remove(info.id)
    assert store.expire() == 1 and store.expire() == 0
    for each in (store, store_in(tmp_path / "own", artifacts=store._artifacts)):
        known = each.get(info.id)
        assert known is not None and (known.status, known.frames) == ("expired", FRAMES)
    store.remove(info.id)
    assert store.get(info.id) is None


def test_what_waits_for_its_place_can_be_removed(tmp_path: Path, media: bytes) -> None:
    artifacts = Artifacts(tmp_path / "artifacts", store=Away(tmp_path / "place"))
    store, info = under_way(tmp_path / "own", media, artifacts=artifacts)
    with pytest.raises(OSError, match="no route"):
        store.finish(info, "stopped")
    store.remove(info.id)
    assert store.settle() == 0 and not list((tmp_path / "own").iterdir())


def test_the_thread_tries_until_it_is_done(
    tmp_path: Path, media: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.server.jobs.recordings.SETTLE_SECONDS", 0.01)
    place = Away(tmp_path / "place")
    artifacts = Artifacts(tmp_path / "artifacts", store=place)
    _, info = under_way(tmp_path / "own", media, artifacts=artifacts)
    store = store_in(tmp_path / "own", artifacts=artifacts)
    store.start()
    place.away = False
    limit = time.monotonic() + 60
    while store._left and time.monotonic() < limit:
        time.sleep(0.01)
    store.close()
    assert whole(store, info)


def test_a_file_of_an_earlier_version_is_moved_and_kept_from_now_on(
    tmp_path: Path, media: bytes
) -> None:
    store, info = under_way(tmp_path / "own", media)
    done = store.finish(info, "stopped")
    os.replace(file_of(store, info), store.path(info))
    os.utime(store.path(info), (0, 0))
    artifacts = Artifacts(tmp_path / "artifacts", limits=Limits(keep_seconds=3600))
    later = store_in(tmp_path / "own", artifacts=artifacts)
    assert later.settle() == 1 and later.get(info.id) == done
    assert artifacts.tidy() == [] and whole(later, info)


def test_limits_of_results_hold_for_recordings(tmp_path: Path, media: bytes) -> None:
    artifacts = Artifacts(tmp_path / "artifacts", limits=Limits(keep_seconds=60))
    store, info = under_way(tmp_path / "own", media, artifacts=artifacts)
    done = store.finish(info, "stopped")
    assert artifacts.size() == done.bytes and store.size() >= done.bytes
    store._max = LEAST_ROOM + done.bytes // 2
    with pytest.raises(NoRoom, match="ONBEAT_RECORDINGS_MAX_MIB"):
        store.check_room()
    artifacts.sweep(set())  # it knows the jobs only
    found = artifacts.find(info.id, "video", "webm")
    assert isinstance(found, LocalFile)
    os.utime(found.path, (0, 0))
    assert artifacts.tidy() == [info.id]
    assert store.size() < done.bytes and store.get(info.id) == done
    artifacts._limits = Limits(min_free=1 << 60)
    with pytest.raises(NoRoom, match="ONBEAT_ARTIFACTS_MIN_FREE_MIB"):
        store_in(tmp_path / "own", artifacts=artifacts).check_room()
