"""The sound of a timeline, cut on a fixed grid of 20 ms. Silence where there is none; no clock.

Positions are seconds after the origin of the timeline; samples keep the rate they come in.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onbeat.webrtc.encoders import OPUS_CLOCK, OPUS_FRAME, OPUS_RATES

Samples = npt.NDArray[np.int16]
PERIOD = OPUS_FRAME / OPUS_CLOCK
"""Seconds of one slot of the grid."""
SNAP = 0.005
"""Seconds. A piece that starts this near to the end of the last one follows it without a seam."""
MAX_LAG = 0.2
"""Seconds. Sounds later than this are dropped, not sent in a burst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSound:
    """20 ms of sound; `pts` in 48 kHz ticks; `silent` = seconds of it that nobody supplied."""

    pts: int
    samples: Samples
    silent: float


class SoundTrack:
    """Pieces of sound in, one frame of 20 ms per grid slot out."""

    def __init__(self, sample_rate: int) -> None:
        if sample_rate not in OPUS_RATES:
            raise ValueError(f"sample_rate {sample_rate} is not one of {OPUS_RATES}")
        self._rate = sample_rate
        self._size = sample_rate // 50
        self._pieces: deque[tuple[int, Samples]] = deque()
        self._end = 0
        self._slot = 0
        self._heard = False

    @property
    def position(self) -> float:
        """Seconds after the origin at which the next frame is due."""
        return self._slot * PERIOD

    def push(self, samples: Samples, at: float) -> None:
        """Place `samples` (int16 mono) so that they start `at` seconds after the origin."""
        start = round(at * self._rate)
        if abs(start - self._end) <= SNAP * self._rate:
            start = self._end
        samples = samples[max(0, self._end - start) :]
        start = max(start, self._end)
        if samples.size:
            self._pieces.append((start, samples))
            self._end, self._heard = start + samples.size, True

    def skip_to(self, at: float) -> float:
        """Leave out all slots that began before `at`; the answer is the seconds left out."""
        slot = max(self._slot, -int(-at * OPUS_CLOCK // OPUS_FRAME))
        left_out = (slot - self._slot) * PERIOD
        self._slot = slot
        self._forget(slot * self._size)
        return left_out

    def take(self) -> DueSound:
        """The frame of the next slot, silence in its holes."""
        start, out = self._slot * self._size, np.zeros(self._size, np.int16)
        filled = 0
        for at, samples in self._pieces:
            low, high = max(start, at), min(start + self._size, at + samples.size)
            if low >= high:
                continue
            out[low - start : high - start] = samples[low - at : high - at]
            filled += high - low
        silent = (self._size - filled) / self._rate if self._heard else 0.0
        pts = self._slot * OPUS_FRAME
        self._slot += 1
        self._forget(self._slot * self._size)
        return DueSound(pts=pts, samples=out, silent=silent)

    def _forget(self, before: int) -> None:
        while self._pieces and self._pieces[0][0] + self._pieces[0][1].size <= before:
            self._pieces.popleft()
