"""`make install` names what is at fault: the network, this checkout, the disk or the machine."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("said", "mend"),
    [
        ("ERROR: Invalid requirement: '<<<<<<< HEAD' (from line 15)", "of this checkout"),
        ("ERROR: Cannot install a and b: conflicting dependencies.", "of this checkout"),
        ("Could not find a version that satisfies the requirement x", "network"),
        ("Connection timed out", "network"),
        ("OSError: [Errno 28] No space left on device", "free some space"),
        ("OSError: [Errno 13] Permission denied: '/opt'", "writable"),
        ("ERROR: Failed building wheel for av", "compiled"),
    ],
)
def test_the_hint_follows_from_what_pip_said(tmp_path: Path, said: str, mend: str) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$SAID" >&2\nexit 1\n')
    python.chmod(0o755)
    (tmp_path / ".installed").touch()  # the room on the disk is not asked for again
    run = subprocess.run(
        ["bash", str(ROOT / ".ci" / "setup")],
        env=os.environ | {"VENV": str(tmp_path), "SAID": said},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 1 and said in run.stderr
    assert mend in run.stderr.partition("mend: ")[2]
