"""Runs interpreted_cases.py in a process of its own, with Triton's interpreter switched on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_triton_versions_agree_with_the_references() -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    cases = Path(__file__).with_name("interpreted_cases.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(cases)],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
