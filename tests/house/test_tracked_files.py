"""What no tracked file may hold: rests of a merge, waits that work only if nothing is awaited."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def tracked() -> Iterator[tuple[Path, str]]:
    """Path and content of every tracked text file."""
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if run.returncode:
        pytest.skip("not in a repository")
    for name in run.stdout.decode().split("\0")[:-1]:
        path = ROOT / name
        if path.is_file() and b"\0" not in (data := path.read_bytes()):
            yield path, data.decode("utf-8", "replace")


def test_no_merge_is_left_half_done() -> None:
    mark = re.compile(r"^(<{7} |>{7} |={7}$)", re.MULTILINE)
    assert [str(path) for path, text in tracked() if mark.search(text)] == []


def test_every_constraint_pins_one_package_once() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    names = [pin.name.lower() for pin in pins]
    assert all(str(pin.specifier).startswith("==") for pin in pins)
    assert sorted(set(names)) == sorted(names)


def test_pages_are_asked_by_functions() -> None:
    """A bare expression is evaluated by the driver once and in the page afterwards, where the
    content security policy forbids it."""
    bare = re.compile(r"wait_for_function\(\s*f?\"(?!\(|async |\w+ =>)")
    found = [path for path, text in tracked() if path.suffix == ".py" and bare.search(text)]
    assert [path.name for path in found if path != Path(__file__)] == []
