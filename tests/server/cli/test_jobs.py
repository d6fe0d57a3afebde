"""`onbeat jobs` against a server with a synthetic engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onbeat.client import OnbeatClient
from onbeat.server import cli
from tests.server.api.fake_engine import FakeEngine
from tests.server.client.conftest import StartServer, start_server  # noqa: F401

runner = CliRunner()


@pytest.fixture
def address(start_server: StartServer) -> str:  # noqa: F811
    return start_server(FakeEngine(job_chunk_seconds=0.01))


def jobs(address: str, *arguments: str, code: int = 0) -> str:
    result = runner.invoke(cli.app, ["jobs", *arguments, "--server", address])
    assert result.exit_code == code, result.output
    return result.output


def test_jobs_are_listed_shown_watched_and_fetched(address: str, tmp_path: Path) -> None:
    with OnbeatClient(address) as client:
        first = client.videos.create("a red ball", seconds=0.5, seed=3)
        second = client.videos.create("a blue ball", seconds=0.5)
    watched = jobs(address, "watch", second.id)
    assert "completed" in watched and "a blue ball" in watched
    lines = jobs(address, "list").splitlines()
    assert [line.split()[0] for line in lines] == [second.id, first.id]
    assert len(jobs(address, "list", "--limit", "1", "--oldest-first").splitlines()) == 1
    assert json.loads(jobs(address, "list", "--json"))[1]["seed"] == 3
    shown = jobs(address, "show", first.id)
    assert "a red ball" in shown and "num_inference_steps" in shown
    assert json.loads(jobs(address, "show", first.id, "--json"))["id"] == first.id
    out = tmp_path / "one.mp4"
    jobs(address, "download", first.id, "-o", str(out), "--wait")
    assert out.read_bytes()[4:8] == b"ftyp"
    jobs(address, "download", first.id, "-o", str(out), "--variant", "thumbnail")
    assert out.read_bytes()[:4] == b"RIFF"


def test_a_file_that_cannot_be_written_is_told_before_the_job_is_waited_for(
    address: str, tmp_path: Path
) -> None:
    out = tmp_path / "no" / "x.mp4"
    found = jobs(address, "download", "video_0", "--wait", "-o", str(out), code=1)
    assert str(out) in found and "No video" not in found and ".part" not in found


def test_a_file_goes_to_a_pipe(address: str) -> None:
    with OnbeatClient(address) as client:
        made = client.videos.create("a red ball", seconds=0.5)
    command = [sys.executable, "-m", "onbeat.server", "jobs", "download", made.id]
    run = subprocess.run(
        [*command, "--wait", "-o", "-", "--server", address], capture_output=True, timeout=100
    )
    assert run.returncode == 0 and run.stdout[4:8] == b"ftyp"
    assert b"completed" in run.stderr, "a line for each change where there is no terminal"


def test_errors_are_one_line(address: str, tmp_path: Path) -> None:
    with OnbeatClient(address) as client:
        failing = client.videos.create("boom", seconds=2)
        endless = client.videos.create("a red ball", seconds=100)
    assert "failed: generation_failed" in jobs(address, "watch", failing.id, code=1)
    assert "cancelled" in jobs(address, "cancel", endless.id)
    for arguments, expected in (
        (["show", "video_nope"], "onbeat jobs: No video with id 'video_nope'."),
        (["download", failing.id, "-o", str(tmp_path / "x")], "onbeat jobs: The video has no"),
        (["download", failing.id, "--wait"], f"onbeat jobs: {failing.id}: boom"),
        (["cancel", endless.id, failing.id], "onbeat jobs: The video has ended already: failed."),
    ):
        output = jobs(address, *arguments, code=1)
        assert expected in output and "Traceback" not in output
    refused = runner.invoke(cli.app, ["jobs", "download", "x", "--variant", "poster"])
    assert refused.exit_code == 2 and "allowed: video, thumbnail" in refused.output
    assert not list(tmp_path.glob("x*"))


def test_no_server_is_one_line() -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "onbeat.server",
            "jobs",
            "list",
            "--server",
            "http://me:geheim@127.0.0.1:9",
        ],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.returncode == 1 and run.stderr.count("\n") == 1
    assert run.stderr.startswith("onbeat jobs: http://***@127.0.0.1:9: ")
    assert run.stderr.endswith("--server or ONBEAT_SERVER names its address\n")
