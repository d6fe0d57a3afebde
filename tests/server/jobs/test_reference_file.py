"""Files to reference media: pictures and videos at the model's size and rate, or a clear error."""

import io
import time
from fractions import Fraction
from pathlib import Path

import av
import msgspec
import numpy as np
import pytest
from PIL import Image

from onbeat.server.jobs.reference_file import BadReference, read_reference

WIDTH = HEIGHT = 32
FPS, RATE = 20, 48_000


def read(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    packed = read_reference(data, width=WIDTH, height=HEIGHT, fps=FPS, sample_rate=RATE)
    wire = msgspec.msgpack.decode(packed)
    frames = np.frombuffer(wire["rgb"], np.uint8).reshape(wire["frames"], HEIGHT, WIDTH, 3)
    return frames, np.frombuffer(wire["sound"], "<i2")


def picture(kind: str, size: tuple[int, int] = (96, 48)) -> bytes:
    """Red, with blue left and right edges that a cover crop cuts off."""
    image = Image.new("RGB", size, (0, 0, 255))
    side = size[1]
    image.paste((255, 0, 0), ((size[0] - side) // 2, 0, (size[0] + side) // 2, side))
    out = io.BytesIO()
    image.save(out, kind, **({"quality": 95} if kind == "JPEG" else {}))
    return out.getvalue()


def video(
    seconds: float,
    fps: int = 10,
    *,
    sound: bool = True,
    red: bool = True,
    container: str = "mp4",
) -> bytes:
    out = io.BytesIO()
    with av.open(out, "w", format=container) as writer:
        stream = writer.add_stream("libx264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        audio = writer.add_stream("aac", rate=44_100, layout="stereo") if sound else None
        for i in range(round(seconds * fps)):
            pixels = np.full((48, 64, 3), (255 if red else 0, 0, 0), np.uint8)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = i, Fraction(1, fps)
            writer.mux(stream.encode(frame))
        writer.mux(stream.encode(None))
        if audio is not None:
            tone = np.sin(np.arange(round(seconds * 44_100)) * 0.05).astype(np.float32) * 0.5
            part = av.AudioFrame.from_ndarray(np.stack([tone, tone]), "fltp", "stereo")
            part.sample_rate, part.pts = 44_100, 0
            for packet in (*audio.encode(part), *audio.encode(None)):
                writer.mux(packet)
    return out.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "ffconcat version 1.0\nfile other.mp4\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nother.mp4\n#EXT-X-ENDLIST\n",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
        "m=video 15004 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
    ],
)
def test_texts_that_point_elsewhere_are_not_followed(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.mp4").write_bytes(video(0.5))
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    with pytest.raises(BadReference, match="cannot be read"):
        read(text.encode())
    assert time.monotonic() - began < 60.0


@pytest.mark.parametrize("container", ["mp4", "mov", "matroska", "avi"])
def test_usual_containers_are_read(container: str) -> None:
    frames, _ = read(video(0.5, container=container))
    assert len(frames) == 9


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_is_one_frame_cropped_to_cover(kind: str) -> None:
    frames, sound = read(picture(kind))
    assert frames.shape == (1, HEIGHT, WIDTH, 3) and not len(sound)
    assert frames[0, :, 2:-2, 0].min() > 200 and frames[0, :, 2:-2, 2].max() < 60


def test_a_video_gets_the_models_clock_and_its_sound() -> None:
    frames, sound = read(video(1.0))
    assert len(frames) in (19, 20) and len(sound) == len(frames) * RATE // FPS
    assert frames[5, 16, 16, 0] > 200
    assert np.abs(sound[4000:20_000].astype(int)).max() > 8_000


def test_a_video_without_sound_is_silent() -> None:
    frames, sound = read(video(0.5, sound=False))
    assert len(frames) >= 9 and not len(sound)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "0 bytes; allowed: 1 to"),
        (b"neither picture nor video", "a file that cannot be read"),
        (picture("PNG")[:100], "a PNG that is broken"),
        (picture("PNG", (4097, 4097)), "4097x4097 pixels; allowed: at most"),
        (video(10.4, fps=5, sound=False), "a video longer than 10.2 s; allowed: 10 s"),
        (bytes(9 * 1024 * 1024), "9437184 bytes; allowed: 1 to 8388608"),
    ],
    ids=["empty", "text", "broken", "large", "long", "heavy"],
)
def test_what_cannot_be_a_reference_says_why(data: bytes, text: str) -> None:
    with pytest.raises(BadReference, match="reference: ") as caught:
        read(data)
    assert text in str(caught.value)
