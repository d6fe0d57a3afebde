"""The official client, unmodified, in several versions against the real server.

OPENAI_PYTHONS names further interpreters (separated by ":") that have other versions installed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.server_process import ServerProcess

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[1] / "server" / "jobs" / "openai_client_check.py"
PYTHONS = [sys.executable, *filter(None, os.environ.get("OPENAI_PYTHONS", "").split(":"))]


@pytest.mark.parametrize("python", PYTHONS)
def test_videos_work_with_the_client(python: str, server: ServerProcess) -> None:
    run = subprocess.run(
        [python, str(SCRIPT), server.url], capture_output=True, text=True, timeout=220
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["checks"] == "passed"
