"""The end of a video: the right frames and the right sound, whatever its length and rate."""

import io
from fractions import Fraction

import av
import msgspec
import numpy as np
import pytest

from onbeat.server.jobs.reference_file import BadReference
from onbeat.server.jobs.reference_tail import read_tail

FPS, RATE, SIZE = 20, 24_000, 32


def tail(data: bytes, seconds: float = 2.4) -> tuple[np.ndarray, np.ndarray]:
    packed = read_tail(data, seconds=seconds, width=SIZE, height=SIZE, fps=FPS, sample_rate=RATE)
    wire = msgspec.msgpack.decode(packed)
    frames = np.frombuffer(wire["rgb"], np.uint8).reshape(wire["frames"], SIZE, SIZE, 3)
    return frames, np.frombuffer(wire["sound"], "<i2")


def clip(seconds: float, fps: int = 20, sound: bool = True) -> bytes:
    """Frame n is grey of level 10 + 2 n, from the last second on; a tone in the last second."""
    out = io.BytesIO()
    count = round(seconds * fps)
    with av.open(out, "w", format="mp4") as file:
        video = file.add_stream("libx264", rate=fps, options={"crf": "10", "g": "50"})
        video.width = video.height = SIZE
        video.pix_fmt = "yuv420p"
        video.codec_context.time_base = Fraction(1, fps)
        audio = file.add_stream("aac", rate=48_000, layout="mono") if sound else None
        for n in range(count):
            level = 10 + max(0, 200 - 2 * (count - 1 - n))
            picture = np.full((SIZE, SIZE, 3), level, np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = n, Fraction(1, fps)
            file.mux(video.encode(frame))
        file.mux(video.encode(None))
        if audio is not None:
            samples = round(seconds * 48_000)
            wave = 9000 * np.sin(np.arange(samples) * 0.05)
            wave[: max(0, samples - 48_000)] = 0
            part = av.AudioFrame.from_ndarray(wave.astype("<i2")[None], format="s16", layout="mono")
            part.sample_rate, part.pts = 48_000, 0
            file.mux(audio.encode(part))
            file.mux(audio.encode(None))
    return out.getvalue()


@pytest.mark.parametrize("seconds", [3.0, 12.0, 30.0])
def test_the_last_frames_of_a_long_one(seconds: float) -> None:
    frames, sound = tail(clip(seconds))
    assert frames.shape[0] == 48 and len(sound) == 48 * RATE // FPS
    levels = frames.mean(axis=(1, 2, 3))
    assert levels[-1] == pytest.approx(210, abs=6) and levels[0] == pytest.approx(116, abs=8)
    assert np.all(np.diff(levels) > -1)
    loud, quiet = sound[-RATE // 2 :], sound[: RATE // 2]
    assert np.abs(loud).max() > 5000 and np.abs(quiet).max() < 500


def test_one_that_is_shorter_than_asked_for() -> None:
    frames, sound = tail(clip(0.5))
    assert frames.shape[0] == 10 and len(sound) == 10 * RATE // FPS


def test_another_rate_and_no_sound() -> None:
    frames, sound = tail(clip(4.0, fps=10, sound=False))
    assert frames.shape[0] == 48 and len(sound) == 0
    assert frames[-1].mean() == pytest.approx(210, abs=6)


@pytest.mark.parametrize("data", [b"", b"hello", b"\x00" * 1000])
def test_files_that_are_none(data: bytes) -> None:
    with pytest.raises(BadReference):
        tail(data)
