"""Encoded packets as a tap gives them, and a process that records them until it is killed."""

import sys
import time
from collections.abc import Container
from pathlib import Path

import numpy as np

from onbeat.server.jobs.recording import RecordingWriter
from onbeat.webrtc.encoders import OpusEncoder, video_encoder
from onbeat.webrtc.tap import EncodedSound, EncodedVideo

SIZE, FPS, RATE = 64, 20, 24_000
TICKS = 90_000 // FPS


def feed(
    writer: RecordingWriter,
    codec: str,
    *,
    frames: int,
    first: int,
    flash: int,
    without: Container[int] = (),
    pause: float = 0.0,
) -> None:
    """Pictures `first`.. with sound; number `flash` is bright and begins a tone. `without`: numbers
    that are left out; `pause`: seconds after each."""
    video, sound = video_encoder(codec, 200_000), OpusEncoder(RATE)
    spoken = 0
    for number in range(frames):
        picture = np.full((SIZE * 3 // 2, SIZE), 128, np.uint8)
        picture[:SIZE] = 235 if number == flash else 20 + number % 5
        pts = (first + number) * TICKS
        for packet in video.encode(picture, pts, FPS, number == 0):
            made = EncodedVideo(
                codec=codec,
                data=bytes(packet),
                pts=pts,
                keyframe=packet.is_keyframe,
                width=SIZE,
                height=SIZE,
                fps=FPS,
                revision=0,
            )
            if number not in without:
                writer.video(made)
        while spoken * FPS < (number + 1) * 50:
            at = np.arange(480) + 480 * spoken
            loud = at >= flash * RATE // FPS
            tone = np.where(loud, 12_000 * np.sin(at / 3), 0).astype(np.int16)
            for packet in sound.encode(tone, 960 * spoken):
                stamp = (packet.pts or 0) + first * 48_000 // FPS
                writer.sound(EncodedSound(data=bytes(packet), pts=stamp))
            spoken += 1
        time.sleep(pause)


def main(path: str, codec: str) -> None:
    """Records four seconds, says how many pictures it was given, and goes on doing nothing."""
    writer = RecordingWriter(
        Path(path), audio=True, max_seconds=600, room=lambda: 1, ended=lambda _: None
    )
    frames = 4 * FPS
    feed(writer, codec, frames=frames, first=0, flash=FPS)
    while writer.frames < frames:
        time.sleep(0.01)
    print(frames, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
