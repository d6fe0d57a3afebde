"""What a stream sees of its camera and hears of its microphone: the newest pictures and sounds, by
the instant at which they were taken, and the uniform piece of them that a chunk is made from.

Bounded: the oldest go. Filled by the thread that reads commands, read by the tick thread. Plain
arrays, no tensors. What it is not: the way that they come (input_store.py), or their encoding.
"""

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from onbeat.server.engine.messages import VideoInput

if TYPE_CHECKING:
    from torch import Tensor

Picture = npt.NDArray[np.uint8]
"""RGB [height, width, 3], at the model's size."""
Sound = npt.NDArray[np.int16]

HOLD_SECONDS = 1.0
"""How long the last picture stands for a camera that has stopped."""
KEPT_CHUNKS = 8
"""Pictures of so many chunks are kept, at the model's rate: a chunk takes those of one chunk's
length, which ended no longer ago than another, and up to twice the rate may come."""
KEPT_SOUND_SECONDS = 2.0
SHORTEST_SOUND = 0.5
"""Of a chunk: with less of it heard, the chunk has no sound to go by."""
FULL_MOTION = 0.2
"""The largest step between two pictures (RMS over pixels in -1..1) that counts as full motion."""
MOTION_SHARE, LEVEL_KEPT = 0.1, 0.1
DIGITS = 3
"""Strengths are rounded to so many: their tables are kept, and nobody sees less."""
MIN_STRENGTH = 10.0**-DIGITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """What one chunk is made from. `pictures`: one for each frame. `sound`: int16, a chunk's
    samples, or None if nothing was heard. `at`: when the first picture was taken."""

    pictures: tuple[Picture, ...]
    sound: Sound | None
    at: float


class InputTrack:
    """One stream's camera and microphone. Thread-safe."""

    def __init__(self, *, fps: int, chunk_frames: int, sample_rate: int) -> None:
        self._fps, self._frames, self._rate = fps, chunk_frames, sample_rate
        self._pictures: deque[tuple[float, Picture]] = deque(maxlen=KEPT_CHUNKS * chunk_frames)
        self._sounds: deque[tuple[float, Sound]] = deque()
        self._lock = threading.Lock()

    def see(self, at: float, picture: Picture) -> None:
        """A picture taken at `at` (monotonic seconds); one that is older than the last is lost."""
        with self._lock:
            if not self._pictures or at > self._pictures[-1][0]:
                self._pictures.append((at, picture))

    def hear(self, at: float, sound: Sound) -> None:
        """Mono sound at the model's rate, whose first sample was taken at `at`."""
        with self._lock:
            self._sounds.append((at, sound))
            while self._sounds[0][0] < at - KEPT_SOUND_SECONDS:
                self._sounds.popleft()

    def clip(self, end: float) -> Clip | None:
        """What was taken in the chunk's length that ends at `end`: at each instant of the model's
        clock the newest picture taken by then. None if there is none, or the last is too old."""
        with self._lock:
            pictures, sounds = list(self._pictures), list(self._sounds)
        past = [(at, p) for at, p in pictures if at <= end] or pictures[:1]
        if not past or past[-1][0] < end - HOLD_SECONDS or past[0][0] > end:
            return None
        chosen = [_newest(past, end - i / self._fps) for i in reversed(range(self._frames))]
        return Clip(
            pictures=tuple(picture for _, picture in chosen),
            sound=self._heard(sounds, end - self._frames / self._fps),
            at=chosen[0][0],
        )

    def _heard(self, sounds: list[tuple[float, Sound]], start: float) -> Sound | None:
        """A chunk's samples from `start` on; gaps are silent."""
        samples = self._rate * self._frames // self._fps
        out, filled = np.zeros(samples, np.int16), 0
        for at, sound in sounds:
            first = round((at - start) * self._rate)
            part = sound[max(0, -first) : max(0, samples - first)]
            out[max(0, first) : max(0, first) + len(part)] = part
            filled += len(part)
        return out if filled >= SHORTEST_SOUND * samples else None


def _newest(past: list[tuple[float, Picture]], by: float) -> tuple[float, Picture]:
    """The newest of them by then; the oldest, if all are newer."""
    return next((entry for entry in reversed(past) if entry[0] <= by), past[0])


def motion_of(pictures: tuple[Picture, ...], before: Picture | None) -> float:
    """0 (still) to 1: the largest RMS difference between neighbours, over `FULL_MOTION`."""
    row = pictures if before is None else (before, *pictures)
    largest = 0.0
    for a, b in zip(row, row[1:], strict=False):
        if a is not b:
            step = (a.astype(np.float32) - b) / 127.5
            largest = max(largest, float(np.sqrt(np.mean(step * step))))
    return min(1.0, largest / FULL_MOTION)


@dataclass(slots=True, kw_only=True)
class StreamInput:
    """A stream's input and what its next chunk is made from. The tick thread owns it."""

    track: InputTrack
    asked: VideoInput
    source: "dict[str, Tensor] | None" = None
    """Latents of the chunk `settled`, by modality; None: that chunk is made from the prompt."""
    settled: int = -1
    """The chunk for which it is known what it is made from."""
    encoding: int = -1
    """The chunk whose clip is being encoded; -1: none."""
    motion: float = 0.0
    level: float | None = None
    """The strength of the last chunk with a source."""
    last: Picture | None = field(default=None, repr=False)
    takes: float = 0.0
    """Predicted seconds of an encode."""
    lag: float | None = None
    """Seconds from the first picture of the last clip being taken to when it is due."""

    def settle(self, chunk: int, source: "dict[str, Tensor] | None") -> None:
        self.source, self.settled, self.encoding = source, chunk, -1

    def strength(self, asked: float) -> float:
        """Of the chunk that begins now. With motion the strength falls, so that what moves stays
        where it is, and follows slowly: s = 0.9 (asked - 0.1 motion) + 0.1 s of the chunk before.

        Source: Feng et al., StreamDiffusionV2 (arXiv 2511.07399), the noise controller.
        """
        if not self.asked.motion_aware:
            return asked
        before = asked if self.level is None else self.level
        moved = (1 - LEVEL_KEPT) * (asked - MOTION_SHARE * self.motion) + LEVEL_KEPT * before
        self.level = min(1.0, max(MIN_STRENGTH, moved))
        return self.level
