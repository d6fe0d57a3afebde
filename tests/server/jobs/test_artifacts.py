"""Results of jobs: whole or absent whatever fails, kept within their limits, swept."""

import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onbeat.server.jobs.artifacts import Artifacts
from onbeat.server.jobs.file_store import FileStore, bytes_in
from onbeat.server.jobs.keeping import Limits, NoRoom
from onbeat.server.jobs.result_store import LocalFile

HOUR = 3600.0


def put(artifacts: Artifacts, job_id: str, data: bytes, at: float | None = None) -> None:
    part = artifacts.part(job_id, 1, "video")
    part.write_bytes(data)
    artifacts.publish(part, job_id, "video")
    found = artifacts.find(job_id, "video")
    assert isinstance(found, LocalFile)
    if at is not None:
        os.utime(found.path, (at, at))


def test_a_removed_folder_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    artifacts = Artifacts(folder)
    shutil.rmtree(folder)
    assert artifacts.size() == 0
    shutil.rmtree(folder)
    put(artifacts, "one", b"1234")
    assert artifacts.size() == bytes_in(folder) == 4


def test_a_published_file_is_described_by_its_bytes(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    part = artifacts.part("one", 1, "video")
    part.write_bytes(b"zip")
    stored = artifacts.publish(part, "one", "video", "png")
    assert (stored.key, stored.bytes, stored.media_type) == ("one.zip", 3, "application/zip")
    assert stored.sha256 == hashlib.sha256(artifacts.read("one", "video", "png")).hexdigest()
    assert artifacts.find("one", "video") is None, "no MP4 was made"


def test_results_may_lie_in_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    artifacts = Artifacts(tmp_path / "own", store=FileStore(elsewhere))
    copied: list[Path] = []
    near = FileStore._near

    def pretend(self: FileStore, part: Path) -> Path:
        target = elsewhere / part.name
        shutil.copyfile(part, target)
        copied.append(target)
        return target

    monkeypatch.setattr(FileStore, "_near", pretend)
    put(artifacts, "one", b"1234")
    monkeypatch.setattr(FileStore, "_near", near)
    put(artifacts, "two", b"56")
    assert copied and sorted(p.name for p in elsewhere.iterdir()) == ["one.mp4", "two.mp4"]
    assert not list((tmp_path / "own").iterdir())


def test_a_disk_that_fails_at_any_call_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Call k fails, for every k, until a run passes untouched."""
    outcomes = set()
    for failing in range(20):
        folder = tmp_path / str(failing)
        artifacts = Artifacts(folder)
        put(artifacts, "one", b"old")
        part = artifacts.part("one", 2, "video")
        part.write_bytes(b"newer")
        calls = iter(range(100))

        def faulty(
            real: Callable[..., Any], calls: Any = calls, failing: int = failing
        ) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                if next(calls) == failing:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return real(*arguments)

            return call

        with monkeypatch.context() as patch:
            patch.setattr("onbeat.server.jobs.file_store.os.fsync", faulty(os.fsync))
            patch.setattr("onbeat.server.jobs.file_store.os.replace", faulty(os.replace))
            try:
                artifacts.publish(part, "one", "video")
                done = True
            except OSError:
                done = False
        data = artifacts.read("one", "video")
        assert data in (b"old", b"newer") and (data == b"newer" or not done)
        artifacts.sweep({"one"})
        assert [p.name for p in folder.iterdir()] == ["one.mp4"]
        outcomes.add((data, done))
        if done:
            break
    assert outcomes == {(b"old", False), (b"newer", False), (b"newer", True)}


def test_expired_results_go_and_others_stay(tmp_path: Path) -> None:
    now = 10_000 * HOUR
    artifacts = Artifacts(tmp_path, limits=Limits(keep_seconds=24 * HOUR), clock=lambda: now)
    put(artifacts, "old", b"1", at=now - 25 * HOUR)
    put(artifacts, "new", b"2", at=now - 23 * HOUR)
    put(artifacts, "future", b"3", at=now + HOUR)
    assert artifacts.tidy() == ["old"] and artifacts.size() == 2
    assert artifacts.find("old", "video") is None and artifacts.read("new", "video") == b"2"
    assert artifacts.expires_at(now) == now + 24 * HOUR
    assert Artifacts(tmp_path).expires_at(now) is None


def test_the_oldest_go_while_there_are_too_many_bytes_but_no_running_download(
    tmp_path: Path,
) -> None:
    artifacts = Artifacts(tmp_path, limits=Limits(max_bytes=250), clock=lambda: 1000.0)
    for age, name in enumerate(["d", "c", "b", "a"]):
        put(artifacts, name, b"x" * 100, at=900.0 - age)
    with artifacts.holding("a"), artifacts.holding("a"):
        with artifacts.holding("a"):
            assert artifacts.tidy() == ["b", "c"]
        put(artifacts, "e", b"x" * 100, at=950.0)
        assert artifacts.tidy() == ["d"]
    put(artifacts, "f", b"x" * 100, at=960.0)
    assert artifacts.tidy() == ["a"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["e.mp4", "f.mp4"]


def test_a_file_that_is_being_written_counts_for_nothing(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path, limits=Limits(max_bytes=1, keep_seconds=1))
    part = artifacts.part("one", 1, "video")
    part.write_bytes(b"x" * 100)
    os.utime(part, (0, 0))
    assert artifacts.tidy() == [] and part.exists() and artifacts.size() == 0


def test_a_full_disk_is_told_with_its_numbers(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    artifacts = Artifacts(tmp_path, limits=Limits(min_free=free * 4))
    with pytest.raises(NoRoom, match=r"has \d+ MiB left, and \d+ MiB are kept for others"):
        artifacts.check_room()


def test_a_folder_that_takes_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = Artifacts(tmp_path / "a")

    def read_only(*_arguments: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr("onbeat.server.jobs.keeping.os.open", read_only)
        with pytest.raises(NoRoom, match="cannot be written: Read-only file system"):
            artifacts.check_room()
    artifacts.check_room()
    assert not list((tmp_path / "a").iterdir())


def test_the_tidying_thread_outlives_a_disk_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.server.jobs.artifacts.TIDY_SECONDS", 0.001)
    artifacts = Artifacts(tmp_path, limits=Limits(keep_seconds=1))
    tidy, tries, done = artifacts.tidy, iter(range(1 << 30)), threading.Event()

    def unlucky() -> list[str]:
        if next(tries) < 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        removed = tidy()
        done.set()
        return removed

    monkeypatch.setattr(artifacts, "tidy", unlucky)
    put(artifacts, "old", b"1", at=0.0)
    artifacts.start()
    assert done.wait(60)
    artifacts.close()
    assert artifacts.find("old", "video") is None
