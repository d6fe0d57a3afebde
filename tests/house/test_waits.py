"""Waits in tests that only work when there is nothing to wait for."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_pages_are_asked_by_functions() -> None:
    """A bare expression is evaluated by the driver once and in the page afterwards, where the
    content security policy forbids it."""
    bare = re.compile(r"wait_for_function\(\s*f?\"(?!\(|async |\w+ =>)")
    files = [p for folder in ("tests", "benchmarks") for p in (ROOT / folder).rglob("*.py")]
    assert [p.name for p in files if p != Path(__file__) and bare.search(p.read_text())] == []
