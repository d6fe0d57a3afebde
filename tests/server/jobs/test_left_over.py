"""What was made of a job goes with its end, also when no attempt runs at that moment."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from onbeat.server.jobs.owner import Owner
from onbeat.server.jobs.workspace import folders
from tests.server.api.conftest import Server, started, until
from tests.server.api.fake_engine import FakeEngine


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Its engine makes nothing, and one job runs at a time."""
    engine = FakeEngine()
    engine.silent.set()
    with ExitStack() as stack:
        yield started(stack, engine=engine, data_dir=tmp_path, max_jobs_running=1)


def work_of(server: Server, video_id: str) -> Path:
    """A folder as an earlier attempt leaves it."""
    folder = server.front.artifacts.work / f"{video_id}.1"
    folder.mkdir(parents=True)
    (folder / "layout.json").write_bytes(b"{}")
    return folder


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_of_a_job_that_waits_and_is_ended(server: Server, how: str) -> None:
    server.video()
    waiting = server.video()["id"]
    folder = work_of(server, waiting)
    url = f"/v1/videos/{waiting}"
    answer = server.http.delete(url) if how == "delete" else server.http.post(f"{url}/cancel")
    assert answer.status_code == 200
    until(lambda: not folder.exists())


def test_of_a_job_that_was_lost_too_often(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onbeat.server.jobs.store.MAX_LOSSES", 1)
    server.video()
    until(lambda: server.engine.streams)
    lost = server.video()["id"]
    claimed = server.front.store.claim(str(Owner.here()))
    assert claimed is not None and claimed.id == lost
    work_of(server, lost)
    until(lambda: server.http.get(f"/v1/videos/{lost}").json()["status"] == "failed")
    until(lambda: not folders(server.front.artifacts.work, lost))
