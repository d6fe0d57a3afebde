"""GStreamer's webrtcbin plays over WHEP and publishes over WHIP."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.e2e.interop.conftest import KEY
from tests.e2e.interop.hosting import FOLDER, Stage

pytestmark = pytest.mark.timeout(180)

SENDS, PLAYS_AT_MOST = "10", "60"
"""Seconds."""
PYTHONS = ("/usr/bin/python3", sys.executable)
"""Debian's PyGObject is for Debian's own Python."""
PROBE = """
import gi
gi.require_version("GstWebRTC", "1.0")
from gi.repository import Gst, GstWebRTC
Gst.init(None)
needed = ("webrtcbin", "nicesrc", "vp8dec", "vp8enc", "opusdec", "rtpvp8depay", "dtlsdec")
missing = [name for name in needed if Gst.ElementFactory.find(name) is None]
raise SystemExit(f"no {missing}" if missing else 0)
"""


@pytest.fixture(scope="module")
def python() -> str:
    """A Python with GStreamer; skips without one."""
    why = ""
    for each in PYTHONS:
        try:
            run = subprocess.run([each, "-c", PROBE], capture_output=True, text=True, timeout=60)
        except OSError as error:
            why = str(error)
            continue
        if run.returncode == 0:
            return each
        why = run.stderr.strip().rpartition("\n")[2]
    pytest.skip(f"GStreamer with webrtcbin and PyGObject is not installed: {why}")


def client(python: str, kind: str, url: str, seconds: str) -> dict[str, Any]:
    command = [python, str(FOLDER / "gst_client.py"), kind, url, seconds, KEY]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    assert (found["status"], found["state"]) == (201, "connected"), (found, run.stderr[-2000:])
    return found


def test_gstreamer_publishes(stage: Stage, session: dict[str, Any], python: str) -> None:
    client(python, "publish", stage.url + session["whip_url"], SENDS)
    seen = stage.seen(session["id"])
    assert seen["frames"] > 20 and seen["size"] == [256, 256]


def test_gstreamer_plays(stage: Stage, session: dict[str, Any], python: str) -> None:
    found = client(python, "watch", stage.url + session["whep_url"], PLAYS_AT_MOST)
    assert found["video"] >= 50 and found["audio"] >= 50, found
