"""What one viewer saw: instants of frames and sounds, and the figures of watching them. Pure.

Instants are seconds on the viewer's monotonic clock, media instants come from time stamps. Freezes
are counted as browsers do (W3C webrtc-stats, freezeCount). Nothing is decoded: a frame counts when
its last packet has come.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

FREEZE_FACTOR, FREEZE_EXTRA = 3.0, 0.15
"""A gap of three mean intervals, or of 150 ms more than the mean, whichever is longer."""
RECENT = 30
"""Intervals that the mean is of."""
VIDEO_CLOCK, AUDIO_CLOCK = 90_000, 48_000
ON_TIME = 0.1
"""Seconds of jitter buffer that a viewer is given: a frame that comes later misses its instant."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A whole frame. `media`: its instant by its time stamp, seconds from the first one's."""

    at: float
    media: float


@dataclass(slots=True, kw_only=True)
class Seen:
    """`asked`: the session was asked for; `accepted`, `offered`, `connected`: instants on the way;
    `frames`: in order of arrival; `sounds`: seconds of sound that came; `refused`: the code of the
    answer that ended it, if one did."""

    asked: float
    accepted: float | None = None
    offered: float | None = None
    connected: float | None = None
    ended: float | None = None
    refused: str | None = None
    frames: list[Arrival] = field(default_factory=list)
    sounds: float = 0.0
    skew: float | None = None
    """Seconds by which pictures come after the sound of the same media instant."""


def intervals(frames: Sequence[Arrival]) -> list[float]:
    return [b.at - a.at for a, b in zip(frames, frames[1:], strict=False)]


def freezes(frames: Sequence[Arrival]) -> list[float]:
    """Lengths of the gaps that count as freezes."""
    found: list[float] = []
    recent: list[float] = []
    for gap in intervals(frames):
        mean = sum(recent) / len(recent) if recent else gap
        if recent and gap >= max(FREEZE_FACTOR * mean, mean + FREEZE_EXTRA):
            found.append(gap)
        recent = [*recent[-RECENT + 1 :], gap]
    return found


def lags(frames: Sequence[Arrival]) -> list[float]:
    """How much later than the quickest frame each came, by media time: 0 and above."""
    if not frames:
        return []
    raw = [frame.at - frame.media for frame in frames]
    least = min(raw)
    return [value - least for value in raw]


def on_time(frames: Sequence[Arrival], within: float = ON_TIME) -> int:
    """Frames that a jitter buffer of `within` seconds, set by the usual way, would have shown."""
    found = lags(frames)
    usual = median(found) if found else 0.0
    return sum(lag <= usual + within for lag in found)


def missing(frames: Sequence[Arrival], fps: float) -> int:
    """Frames that never came, by holes in the time stamps."""
    holes = [round((b.media - a.media) * fps) - 1 for a, b in zip(frames, frames[1:], strict=False)]
    return sum(max(0, hole) for hole in holes)


def chunk_periods(frames: Sequence[Arrival], chunk_frames: int, fps: float) -> list[float]:
    """Seconds between the first frames of successive chunks."""
    by_chunk: dict[int, float] = {}
    for frame in frames:
        by_chunk.setdefault(round(frame.media * fps) // chunk_frames, frame.at)
    order = sorted(by_chunk)
    return [by_chunk[b] - by_chunk[a] for a, b in zip(order, order[1:], strict=False) if b == a + 1]


def inside(frames: Sequence[Arrival], start: float, end: float) -> list[Arrival]:
    return [frame for frame in frames if start <= frame.at < end]
