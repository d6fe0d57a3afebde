"""One media clock for pictures and sound: what is due when, what came too late, what is missing.

Pure state over instants that the caller gives; no event loop, no encoder, no network. The origin is
the first chunk's playout instant. Time stamps of both media are the playout instant counted from
that one origin (90 kHz and 48 kHz), so they cannot drift apart, whatever is dropped.
"""

from collections import deque
from dataclasses import dataclass

from onbeat.webrtc.encoders import VIDEO_CLOCK, Picture
from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.sound import MAX_LAG, PERIOD, DueSound, SoundTrack

MARGIN = 0.02
"""Seconds from now at which a late chunk starts when the clock is moved for it."""
MAX_AHEAD = 10.0
"""Chunks due later than this are refused: nobody generates that far ahead of a viewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueFrame:
    """A picture and the instant (seconds) at which it leaves; `pts` in 90 kHz ticks."""

    due: float
    period: float
    pts: int
    picture: Picture
    fps: int
    revision: int
    chunk: int = 0
    number: int = 0
    """Inside its chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What `Timeline.take` found: at most one frame to send, and how many were given up."""

    frame: DueFrame | None
    due: int
    late: int
    skipped: int


class Timeline:
    """Chunks in, frames and 20 ms sounds out. `sample_rate` as in the chunks."""

    def __init__(self, sample_rate: int) -> None:
        self.origin: float | None = None
        self.offset = 0.0
        self.reanchored = 0
        self.sound = SoundTrack(sample_rate)
        self._frames: deque[DueFrame] = deque()
        self._missing: deque[tuple[float, int]] = deque()
        self._next_index: int | None = None
        self._video_end = float("-inf")
        self._late_in_a_row = 0

    def push(self, chunk: MediaChunk, now: float) -> None:
        """Take a chunk. Chunks older than the last one, or due in the far future, are ignored."""
        behind = self._next_index is not None and chunk.index < self._next_index
        if behind or chunk.playout_at - now > MAX_AHEAD:
            return
        start = self._place(chunk, now)
        origin = self.origin = start if self.origin is None else self.origin
        self._note_gap(chunk, start)
        self._next_index = chunk.index + 1
        self._add_frames(chunk, start, origin)
        self.sound.push(chunk.audio, start - origin)

    def _place(self, chunk: MediaChunk, now: float) -> float:
        """The instant at which the chunk plays: its own, or later where the clock was moved."""
        if chunk.playout_at >= self._video_end:
            self.offset = 0.0
        length = chunk.frames.shape[0] / chunk.fps
        start = chunk.playout_at + self.offset
        if start + length >= now:
            self._late_in_a_row = 0
            return start
        self._late_in_a_row += 1
        if self._late_in_a_row < 2:
            return start
        self._late_in_a_row = 0
        self.reanchored += 1
        self.offset = now + MARGIN - chunk.playout_at
        return now + MARGIN

    def _note_gap(self, chunk: MediaChunk, start: float) -> None:
        missing = 0 if self._next_index is None else chunk.index - self._next_index
        frames, period = chunk.frames.shape[0], 1 / chunk.fps
        for back in range(missing * frames, 0, -1):
            self._missing.append((start - back * period, 1))

    def _add_frames(self, chunk: MediaChunk, start: float, origin: float) -> None:
        period = 1 / chunk.fps
        for number, picture in enumerate(chunk.frames):
            due = start + number * period
            if due <= self._video_end - period / 2:
                continue  # overlaps what is queued already: media time never runs backwards
            self._frames.append(
                DueFrame(
                    due=due,
                    period=period,
                    pts=round((due - origin) * VIDEO_CLOCK),
                    picture=picture,
                    fps=chunk.fps,
                    revision=chunk.revision,
                    chunk=chunk.index,
                    number=number,
                )
            )
            self._video_end = due + period

    def next_due(self) -> float | None:
        """The next instant at which `take` or `take_sound` has something; None before the start."""
        if self.origin is None:
            return None
        sound = self.origin + self.sound.position
        return min(sound, self._frames[0].due) if self._frames else sound

    def take(self, now: float) -> Taken:
        """The newest frame due by `now`, unless it is a whole period late; older ones are late."""
        skipped = 0
        while self._missing and self._missing[0][0] <= now:
            skipped += self._missing.popleft()[1]
        passed: list[DueFrame] = []
        while self._frames and self._frames[0].due <= now:
            passed.append(self._frames.popleft())
        newest = passed[-1] if passed else None
        if newest is not None and now - newest.due > newest.period:
            newest = None
        late = len(passed) - (newest is not None)
        return Taken(frame=newest, due=len(passed) + skipped, late=late, skipped=skipped)

    def take_sound(self, now: float) -> tuple[list[DueSound], float]:
        """All sounds due by `now`, and the seconds given up because they came far too late."""
        if self.origin is None:
            return [], 0.0
        at = now - self.origin
        late = at - self.sound.position > MAX_LAG
        dropped = self.sound.skip_to(at - PERIOD) if late else 0.0
        sounds = []
        while self.origin + self.sound.position <= now:
            sounds.append(self.sound.take())
        return sounds, dropped

    def discard(self, now: float) -> DueFrame | None:
        """Nobody watches: forget what was due by `now`, and answer with the last picture of it."""
        last = None
        while self._frames and self._frames[0].due <= now:
            last = self._frames.popleft()
        self._missing.clear()
        if self.origin is not None:
            self.sound.skip_to(now - self.origin)
        return last

    def pts(self, now: float) -> int:
        """The 90 kHz time stamp of an instant; only after the first chunk."""
        assert self.origin is not None
        return round((now - self.origin) * VIDEO_CLOCK)
