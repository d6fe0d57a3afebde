"""The official client against a real server on a loopback port, with a synthetic engine."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from onbeat.server.api.app import create_app
from onbeat.server.config import load_settings
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import FakeMedia

SCRIPT = Path(__file__).with_name("openai_client_check.py")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A served address."""
    app = create_app(load_settings(data_dir=tmp_path), FakeEngine(), FakeMedia)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_the_client_works_unmodified(address: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), address],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["checks"] == "passed" and report["decoded"] and report["frames"] == 20
