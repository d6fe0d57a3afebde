"""The examples of README and docs/client.md do what they say, against a real server."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.server_process import ServerProcess

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/client.md")
FENCE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ADDRESS = "http://127.0.0.1:8000"
EXAMPLES = [
    pytest.param(code, id=f"{Path(page).stem}-{number}")
    for page in PAGES
    for number, code in enumerate(FENCE.findall((ROOT / page).read_text()))
]


SHELL = re.compile(r"^```sh\n(curl .*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS = [code for page in PAGES for code in SHELL.findall((ROOT / page).read_text())]


def test_there_are_examples() -> None:
    assert COMMANDS
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code: str, server: ServerProcess, tmp_path: Path) -> None:
    assert ADDRESS in code
    run = subprocess.run(
        [sys.executable, "-c", code.replace(ADDRESS, server.url)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=220,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    written = re.findall(r'"(\w+\.(?:mp4|webp))"', code)
    assert all((tmp_path / name).stat().st_size > 0 for name in written), written
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.parametrize("code", COMMANDS)
def test_commands_of_curl_run(code: str, server: ServerProcess, tmp_path: Path) -> None:
    assert ADDRESS in code
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code.replace(ADDRESS, server.url)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=220,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    for name in re.findall(r"-o (\w+\.mp4)", code):
        assert (tmp_path / name).read_bytes()[4:8] == b"ftyp"
