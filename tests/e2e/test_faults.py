"""Kill -9: the picture comes back without a reload, jobs complete, nothing leaks."""

import os
import signal
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.e2e.chromium import Watched
from tests.e2e.conftest import OpenPage
from tests.e2e.server_process import ServerProcess, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

JOB_SECONDS = 240.0
"""What a hopeless wait is, not what is promised."""


def all_completed(server: ServerProcess, ids: list[str]) -> bool:
    states = [server.get(f"/v1/videos/{video}")["status"] for video in ids]
    assert "failed" not in states, states
    return set(states) == {"completed"}


def kill_and_wait(server: ServerProcess, watched: Watched) -> None:
    """From the end of the engine process until the picture goes on; how soon that is depends on the
    machine."""

    def decoded() -> int:
        return int(watched.inbound()["video"].get("framesDecoded", 0))

    before = decoded()
    until(lambda: decoded() > before + 20, 100, "a running picture")
    pid = server.get("/v1/overview")["engine"]["pid"]
    os.kill(pid, signal.SIGKILL)
    watched.page.wait_for_timeout(300)  # what was buffered is shown
    frozen = decoded()
    until(lambda: decoded() > frozen + 10, 100, "the picture after the kill")
    assert server.get("/v1/overview")["engine"]["pid"] != pid


@pytest.mark.browser
def test_a_killed_engine_comes_back_under_a_live_page_and_a_job(
    server: ServerProcess, open_page: OpenPage
) -> None:
    watched = open_page("/#prompt=a+red+ball+over+the+sea")
    watched.wait_state("Live")
    video = server.post("/v1/videos", {"prompt": "a blue ring at sunset", "seconds": "4"})["id"]

    kill_and_wait(server, watched)
    until(lambda: all_completed(server, [video]), JOB_SECONDS, "the job")
    assert server.get("/v1/overview")["engine"]["restarts"] == 1
    watched.page.goto("about:blank")

    def empty() -> bool:
        engine = server.get("/v1/overview")["engine"]
        return (engine["pages_used"], engine["slots_used"]) == (0, 0)

    until(empty, 60, "all pages and slots back")


def test_queued_jobs_survive_a_killed_server(tmp_path: Path) -> None:
    with closing(ServerProcess(tmp_path)) as first:
        first.wait_ready()
        videos = [
            first.post("/v1/videos", {"prompt": f"a red ball {i}", "seconds": "2", "seed": str(i)})[
                "id"
            ]
            for i in range(4)
        ]
        family = psutil.Process(first.process.pid).children(recursive=True)
        first.process.kill()
    until(lambda: not any(p.is_running() for p in family), 60, "the engine of a killed server ends")
    with closing(ServerProcess(tmp_path)) as second:
        second.wait_ready()
        until(lambda: all_completed(second, videos), JOB_SECONDS, "the jobs of the killed server")
        listed = {video["id"] for video in second.get("/v1/videos")["data"]}
        assert set(videos) <= listed
