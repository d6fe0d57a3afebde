"""A disk that fills, or takes nothing any more, while jobs are made: one job fails, and says why;
nothing stays behind, and the server goes on when there is room."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from onbeat.server.jobs.journal import JournalFile, Record
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_engine import FakeEngine

MIB = 1 << 20


def left_over(server: Server) -> list[Path]:
    """What lies in the folders of unfinished work."""
    work = server.front.artifacts.work
    return list(work.iterdir()) if work.is_dir() else []


@pytest.mark.parametrize("kind", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_no_more_fails_the_job_and_no_other(
    server: Server, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    append = JournalFile.append

    def full(self: JournalFile, record: Record) -> None:
        if record.chunk == 2:
            raise OSError(kind, os.strerror(kind))
        append(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(JournalFile, "append", full)
        failed = server.ended(server.video(seconds=2)["id"])
    assert (failed["status"], failed["error"]["code"]) == ("failed", "storage_failed")
    assert os.strerror(kind) in failed["error"]["message"]
    until(lambda: not left_over(server))
    assert server.ended(server.video()["id"])["status"] == "completed"
    assert server.http.get("/ready").status_code == 200


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_real_disk_that_fills_up(small_disk: Path, start_server: StartServer) -> None:
    """Results, unfinished work and the list of jobs lie on it, as they do by default."""
    engine = FakeEngine()
    server = start_server(engine=engine, data_dir=small_disk, artifacts_min_free_mib=0)
    (small_disk / "ballast").write_bytes(bytes(6 * MIB))
    made = server.video(seconds=100)
    failed = until(
        lambda: (
            (body := server.http.get(f"/v1/videos/{made['id']}").json())["status"] == "failed"
            and body
        )
    )
    assert failed["error"]["code"] == "storage_failed"
    reasons = (os.strerror(errno.ENOSPC), "the disk of the list of jobs is full")
    assert any(reason in failed["error"]["message"] for reason in reasons), failed["error"]
    until(lambda: not left_over(server))
    assert server.ended(server.video()["id"])["status"] == "completed"
    with (small_disk / "more").open("wb", buffering=0) as more:
        try:
            while True:
                more.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC
    until(lambda: server.http.post("/v1/videos", json={"prompt": "a ball"}).status_code == 507)
    (small_disk / "ballast").unlink()
    assert server.ended(server.video()["id"])["status"] == "completed"


def test_a_folder_without_the_right_to_write_takes_no_job(
    start_server: StartServer, tmp_path: Path
) -> None:
    """Root may write everywhere, so for root a file stands where the folder was."""
    place = tmp_path / "results"
    server = start_server(artifacts=str(place))
    assert server.ended(server.video()["id"])["status"] == "completed"
    aside = tmp_path / "aside"
    place.rename(aside)
    place.write_bytes(b"in the way")
    until(lambda: server.http.post("/v1/videos", json={"prompt": "a ball"}).status_code == 507)
    place.unlink()
    aside.rename(place)
    until(lambda: server.http.post("/v1/videos", json={"prompt": "a ball"}).status_code == 200)
