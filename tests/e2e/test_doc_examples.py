"""The examples of README and docs/client.md do what they say, against a real server."""

import re
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


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code: str, server: ServerProcess, tmp_path: Path) -> None:
    assert ADDRESS in code
    run = subprocess.run(
        [sys.executable, "-c", code.replace(ADDRESS, server.url)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    written = re.findall(r'"(\w+\.(?:mp4|webp))"', code)
    assert all((tmp_path / name).stat().st_size > 0 for name in written), written
    assert not list(tmp_path.glob("*.part"))
