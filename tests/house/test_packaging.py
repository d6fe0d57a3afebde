"""The import namespace: links resolve, hold no code, and tracebacks show the real folders."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import onbeat
import onbeat.webrtc.media

ROOT = Path(__file__).parents[2]
PACKAGES = ("kernels", "models", "samplers", "server", "webrtc")
LINKS = {name: ROOT / name for name in PACKAGES} | {"client": ROOT / "server" / "client"}


@pytest.mark.parametrize("name", LINKS)
def test_each_link_resolves_to_its_folder(name: str) -> None:
    link = ROOT / ".pkg" / "onbeat" / name
    assert link.is_symlink()
    assert not Path(os.readlink(link)).is_absolute()
    assert link.resolve() == LINKS[name]


def test_the_link_folder_holds_links_and_nothing_else() -> None:
    found = {p.name for p in (ROOT / ".pkg" / "onbeat").iterdir()} - {"__pycache__"}
    assert found == {*LINKS, "__init__.py", "py.typed"}


def test_modules_come_from_the_real_folders() -> None:
    assert Path(onbeat.webrtc.media.__file__) == ROOT / "webrtc" / "media.py"


def test_the_client_has_one_name() -> None:
    """`onbeat.client`; the folder's place below the server is nobody's business."""
    listed = subprocess.run(
        ["git", "grep", "-lE", r"onbeat\.server\.client|server import client", "--", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert set(listed) <= {"tests/house/test_packaging.py"}


def test_the_client_loads_neither_torch_nor_the_server() -> None:
    code = """
import sys
for name in ("torch", "fastapi", "onbeat.server", "onbeat.webrtc", "aiortc"):
    sys.modules[name] = None
import onbeat.client
onbeat.client.OnbeatClient().close()
onbeat.client.AsyncOnbeatClient()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr


def test_layers_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout + run.stderr


def test_files_stay_short() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    if not listed:
        pytest.skip("not a git checkout")
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name in listed}
    limit = {name: 500 if name.startswith("kernels/") else 400 for name in lengths}
    assert {n: lines for n, lines in lengths.items() if lines > limit[n]} == {}
