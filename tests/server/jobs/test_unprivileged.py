"""Servers of a user who may not write everywhere: folders that are read-only, or taken away.

Root writes wherever it likes; run by root, the servers are somebody else's.
"""

import os
import pwd
import shutil
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.server.jobs.target_client import Client
from tests.server.jobs.targets import PATIENCE, Target, Zygote

FRAMES = 2000
"""Many: a job is not at its end by the time its folder goes."""
Start = Callable[..., Target]


def somebody() -> str:
    """Whom the servers run as; "" for whoever runs the tests."""
    if os.geteuid() != 0:
        return ""
    try:
        return pwd.getpwnam("nobody").pw_name
    except KeyError:
        pytest.skip("root writes everywhere, and there is no user nobody")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Theirs; a test's own folders are closed to others."""
    with TemporaryDirectory() as name:
        if user := somebody():
            shutil.chown(name, user)
        yield Path(name)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def start(folder: Path, zygote: Zygote) -> Iterator[Start]:
    made = list[Target]()

    def starting(chunk_seconds: float = 0.0, **settings: Any) -> Target:
        settings = {"data_dir": str(folder / "data")} | settings
        made.append(
            zygote.start(
                settings,
                chunk_seconds=chunk_seconds,
                user=somebody(),
                refused=str(folder / "refused"),
            )
        )
        return made[-1]

    yield starting
    for target in made:
        target.kill()


def until(condition: Callable[[], Any], what: str) -> Any:
    began = time.monotonic()
    while not (found := condition()):
        assert time.monotonic() - began < PATIENCE, what
        time.sleep(0.02)
    return found


def ended(client: Client, video_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        job = client.get(video_id)
        return None if job["status"] in ("queued", "in_progress") else job

    job: dict[str, Any] = until(look, f"{video_id} does not end")
    return job


def answer(client: Client) -> int:
    """The status of a new job's request."""
    try:
        client.add(1, 20)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    return 200


def writable(folder: Path, yes: bool) -> None:
    """A folder and all that is in it."""
    for path, _, _ in os.walk(folder):
        with suppress(FileNotFoundError):  # what was made of an ended job goes a moment later
            os.chmod(path, 0o755 if yes else 0o555)


def gone(folder: Path) -> bool:
    """Away with it, though somebody writes there."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def running(client: Client, work: Path) -> str:
    """A job that has chunks on the disk."""
    video_id = client.add(1, FRAMES)
    until(lambda: list(work.glob(f"{video_id}.*/j*.log")), "no chunk comes")
    return video_id


def test_results_that_cannot_be_written(folder: Path, start: Start) -> None:
    place = folder / "results"
    client = start(artifacts=str(place)).client
    assert ended(client, client.add(1, 20))["status"] == "completed"
    writable(place, False)
    until(lambda: answer(client) == 507, "jobs are taken that cannot be written")
    writable(place, True)
    until(lambda: answer(client) == 200, "no job is taken")


def test_a_folder_that_becomes_read_only_fails_the_running_job(folder: Path, start: Start) -> None:
    place = folder / "results"
    client = start(0.05, artifacts=str(place)).client
    video_id = running(client, place / "work")
    writable(place, False)
    job = ended(client, video_id)
    assert (job["status"], job["error"]["code"]) == ("failed", "storage_failed")
    assert "Permission denied" in job["error"]["message"]
    writable(place, True)
    until(lambda: answer(client) == 200, "no job is taken")
    assert ended(client, client.add(2, 20))["status"] == "completed"


def test_work_that_is_taken_away_fails_the_running_job_and_no_other(
    folder: Path, start: Start
) -> None:
    client = start(0.05).client
    work = folder / "data" / "work"
    video_id = running(client, work)
    until(lambda: gone(work), "the folder stays")
    job = ended(client, video_id)
    assert (job["status"], job["error"]["code"]) == ("failed", "storage_failed")
    assert ended(client, client.add(2, 20))["status"] == "completed"


def test_a_data_folder_that_cannot_be_written_is_refused_by_name(
    folder: Path, start: Start
) -> None:
    data = folder / "data"
    data.mkdir()
    data.chmod(0o555)
    target = start()
    until(lambda: not target.alive(), "it runs without its folder")
    said = (folder / "refused").read_text()
    assert said == f"data_dir: {data} cannot be written to; choose another with --data-dir"
