"""Stacks that are no browser's: FFmpeg pushes over WHIP, werift (TypeScript) plays over WHEP."""

import json
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.e2e.interop.conftest import KEY
from tests.e2e.interop.hosting import FOLDER, Stage
from tests.e2e.interop.pattern import TONE, picture, tone
from tests.e2e.interop.test_browser_clients import rising
from tests.e2e.server_process import until

pytestmark = pytest.mark.timeout(240)

RATE, SECONDS = 25, 4
SECONDS_ALLOWED = 60


def ffmpeg() -> str:
    """FFmpeg with the whip muxer; skips without one."""
    try:
        import imageio_ffmpeg
    except ImportError:
        pytest.skip("imageio-ffmpeg is not installed; Debian's FFmpeg has no whip muxer")
    path: str = imageio_ffmpeg.get_ffmpeg_exe()
    muxers = subprocess.run([path, "-hide_banner", "-muxers"], capture_output=True, text=True)
    if " whip " not in muxers.stdout:
        pytest.skip(f"{path} has no whip muxer")
    return path


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the pattern, pictures and sound, losslessly."""
    path = tmp_path_factory.mktemp("film") / "bars.mkv"
    with av.open(path, "w") as made:
        video: Any = made.add_stream("ffv1", rate=RATE)
        video.width, video.height, video.pix_fmt = 320, 180, "yuv420p"
        audio: Any = made.add_stream("pcm_s16le", rate=48_000, layout="stereo")
        for number in range(RATE * SECONDS):
            grey = np.full((90, 320), 128, np.uint8)
            luma = picture(number, 320, 180)
            frame = av.VideoFrame.from_ndarray(np.concatenate([luma, grey]), format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            made.mux(video.encode(frame))
            samples = np.repeat(tone(number * 1920, 1920, 48_000), 2).reshape(1, -1)
            sound = av.AudioFrame.from_ndarray(samples, format="s16", layout="stereo")
            sound.sample_rate, sound.pts = 48_000, number * 1920
            made.mux(audio.encode(sound))
        made.mux(video.encode(None))
        made.mux(audio.encode(None))
    return path


def push(
    stage: Stage, session: dict[str, Any], film: Path, video: str, key: str = KEY, loop: int = 0
) -> list[str]:
    """FFmpeg's command line. `loop`: how often the file begins again, -1 for ever."""
    coding = f"-c:v libx264 -bf 0 -g 25 {video} -c:a libopus -ar 48000 -ac 2 -b:a 64k".split()
    target = ["-f", "whip", "-authorization", key, f"{stage.url}{session['whip_url']}"]
    source = ["-stream_loop", str(loop), "-re", "-i", str(film)]
    return [ffmpeg(), "-hide_banner", *source, *coding, *target]


def test_ffmpeg_pushes_a_file(stage: Stage, session: dict[str, Any], film: Path) -> None:
    """H.264 and Opus; it sends the key and DELETE, and no candidates at all."""
    command = push(stage, session, film, "-preset ultrafast -tune zerolatency -profile:v baseline")
    run = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr[-3000:]
    seen = stage.seen(session["id"])
    rising(seen["numbers"])
    assert seen["frames"] > RATE * SECONDS // 2 and seen["size"] == [320, 180]
    assert seen["unread"] <= seen["frames"] // 4 and abs(seen["pitch"] - TONE) < 15
    assert len(seen["events"]) == 2 and seen["events"][0] == "started"
    steps = np.diff(seen["times"])
    assert np.allclose(steps * RATE, np.round(steps * RATE), atol=0.05) and (steps > 0).all()


def test_ffmpeg_is_told_why_it_may_not(stage: Stage, session: dict[str, Any], film: Path) -> None:
    command = push(stage, session, film, "-preset ultrafast", "wrong-key")
    run = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert run.returncode != 0 and "401" in run.stderr
    assert stage.seen(session["id"])["events"] == []


def test_a_publisher_that_is_killed_makes_room_for_one_of_another_profile(
    stage: Stage, session: dict[str, Any], film: Path
) -> None:
    """The second sends High profile, which aiortc alone would not agree to."""
    first = push(stage, session, film, "-preset ultrafast", loop=-1)
    with subprocess.Popen(first, stderr=subprocess.DEVNULL) as process:
        until(lambda: stage.seen(session["id"])["frames"] > 10, SECONDS_ALLOWED, "pictures")
        process.kill()
    until(
        lambda: stage.seen(session["id"])["events"][1:] == ["ended: publisher silent"],
        SECONDS_ALLOWED,
        "the end of a silent publisher",
    )
    second = push(stage, session, film, "-preset veryfast -profile:v high")
    run = subprocess.run(second, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr[-3000:]
    seen = stage.seen(session["id"])
    assert seen["events"][2] == "started" and len(seen["events"]) == 4
    assert seen["frames"] > RATE * SECONDS // 2 and seen["unread"] <= seen["frames"] // 4


@pytest.mark.parametrize("codec", ["VP8", "H264"])
def test_werift_plays(npm_clients: None, stage: Stage, session: dict[str, Any], codec: str) -> None:
    """The drafts' client with a peer connection that shares no code with browsers or with ours."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node in the PATH")
    command = [node, "werift.mjs", stage.url + session["whep_url"], KEY, codec]
    run = subprocess.run(
        command, cwd=FOLDER, capture_output=True, text=True, timeout=SECONDS_ALLOWED + 40
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["video"] > 20 and found["audio"] > 20
    assert found["codec"] == f"video/{codec}" and found["keyframe"]
    assert found["statuses"][0] == ["POST", 201] and found["statuses"][-1] == ["DELETE", 200]
    assert all(status < 300 for _, status in found["statuses"]), found
