"""The official client against a real server on a loopback port, with a synthetic engine."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.api.fake_engine import FakeEngine
from tests.server.served import served

SCRIPT = Path(__file__).with_name("openai_client_check.py")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with served(FakeEngine(), data_dir=tmp_path) as url:
        yield url


@pytest.mark.timeout(420)
def test_the_client_works_unmodified(address: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), address, "--jobs", "120"],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["checks"] == "passed" and report["decoded"] and report["frames"] == 20
    assert report["paged"] >= 120
