"""The latency record of each frame, from the admission of its chunk to the viewer's screen.

Stages follow one another without a gap, so that they sum to the frame's latency: the engine's
(`queue` is all waiting there), the way to the front, the wait for the playout instant (`pace`),
encoding, sending; then, where a viewer's browser tells of it, network, jitter buffer, and decoding
and display in the browser (`shown`). Seconds on the monotonic clock; a viewer sends durations only,
so no clock of his and no step of the wall clock can make a stage negative. Not the counting of it
(metrics.py) nor the percentiles (tails.py).
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from onbeat.server.engine.messages import ChunkReady
from onbeat.webrtc.frames import FrameTimes

ENGINE_STAGES = ("queue", "denoise", "commit", "decode", "convert")
FRONT_STAGES = ("handover", "pace", "encode", "send")
VIEWER_STAGES = ("network", "buffer", "shown")
SERVER_STAGES = (*ENGINE_STAGES, *FRONT_STAGES)
FRAME_STAGES = (*FRONT_STAGES, *VIEWER_STAGES)
ALL_STAGES = (*SERVER_STAGES, *VIEWER_STAGES)
KEPT_CHUNKS, KEPT_FRAMES = 64, 256
PAUSE = 2.0
"""Seconds without a frame that are no interval between two any more."""
MOST_REPORTED = 120
"""Frames in one report of a viewer."""
LONGEST = 30.0
"""Seconds. A viewer's figure above it is not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRecord:
    """`stages`: seconds by name, in order; `released_at`: when its chunk was admitted to the
    engine; `lateness`: seconds after its playout instant at which it was encoded, or before;
    `interval`: since the session's frame before, None after a pause."""

    chunk: int
    number: int
    pts: int
    released_at: float
    sent_at: float
    lateness: float
    interval: float | None
    stages: Mapping[str, float]

    @property
    def seen(self) -> bool:
        """Whether a viewer told of it."""
        return "shown" in self.stages

    @property
    def total(self) -> float:
        """From admission to the last packet, or to the screen."""
        viewer = sum(self.stages.get(name, 0.0) for name in VIEWER_STAGES)
        return self.sent_at - self.released_at + viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFrame:
    """What a viewer's browser says of one picture: the time stamp on its packets, seconds in the
    jitter buffer, and from there to the screen. `echo`: the instant, on this machine's clock, at
    which the report came, less how long before its leaving the picture had come there: so that is
    the picture's sending and two ways later. None if the report does not tell."""

    rtp_timestamp: int
    buffer: float
    shown: float
    echo: float | None = None

    def network(self, sent_at: float) -> float | None:
        """Seconds of its way, as half of a round trip: its own and the report's."""
        if self.echo is None:
            return None
        return min(LONGEST, max(0.0, (self.echo - sent_at) / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrived:
    event: ChunkReady
    at: float


class SessionFrames:
    """The last frames of one session. The event loop's alone."""

    def __init__(self) -> None:
        self._chunks: OrderedDict[int, _Arrived] = OrderedDict()
        self._frames: OrderedDict[int, FrameRecord] = OrderedDict()
        self.recent: deque[FrameRecord] = deque(maxlen=KEPT_FRAMES)
        """Newest last, as they were sent."""
        self._last_at: float | None = None
        self._early: OrderedDict[int, list[tuple[float | None, SeenFrame]]] = OrderedDict()
        """What viewers said of frames whose records were not made yet."""
        self._matched: list[FrameRecord] = []

    def arrived(self, event: ChunkReady, now: float) -> None:
        """A chunk reached the front."""
        self._chunks[event.chunk] = _Arrived(event=event, at=now)
        while len(self._chunks) > KEPT_CHUNKS:
            self._chunks.popitem(last=False)

    def sent(self, frames: Iterable[FrameTimes]) -> list[FrameRecord]:
        """Pictures that left: their records. One of a chunk that is long gone has none."""
        made = [
            _joined(arrived, times, self._interval(times))
            for times in frames
            if (arrived := self._chunks.get(times.chunk)) is not None
        ]
        for record in made:
            self._frames[record.pts] = record
            self.recent.append(record)
            for trip, frame in self._early.pop(record.pts, ()):
                self._matched += [r for r in [self._seen(record, trip, frame)] if r is not None]
        while len(self._frames) > KEPT_FRAMES:
            self._frames.popitem(last=False)
        return made

    def _interval(self, times: FrameTimes) -> float | None:
        last, self._last_at = self._last_at, times.encoded_at
        since = None if last is None else times.encoded_at - last
        return since if since is not None and 0 <= since < PAUSE else None

    def viewed(self, pts: int, one_way: float | None, frame: SeenFrame) -> FrameRecord | None:
        """A viewer's half of a picture; None for one that is not known, or not yet: a picture may
        be seen before the sender is asked what it sent, and is matched then. `one_way`: seconds
        to the viewer, for a report that does not tell of the picture's own way; None: not known
        either, and nothing can be said of it."""
        record = self._frames.get(pts)
        if record is not None:
            return self._seen(record, one_way, frame)
        self._early.setdefault(pts, []).append((one_way, frame))
        while len(self._early) > KEPT_FRAMES:
            self._early.popitem(last=False)
        return None

    def take_matched(self) -> list[FrameRecord]:
        """Records that viewers had told of before they were made, since the last call."""
        matched, self._matched = self._matched, []
        return matched

    def _seen(
        self, record: FrameRecord, one_way: float | None, frame: SeenFrame
    ) -> FrameRecord | None:
        own = frame.network(record.sent_at)
        network = one_way if own is None else own
        if network is None:
            return None
        viewer = {"network": network, "buffer": frame.buffer, "shown": frame.shown}
        stages = {name: record.stages[name] for name in SERVER_STAGES} | viewer
        seen = replace(record, stages=MappingProxyType(stages))
        self._frames[record.pts] = seen
        return seen

    def by_chunk(self, chunk: int) -> list[FrameRecord]:
        """Its pictures so far, with what viewers said."""
        return [record for record in self._frames.values() if record.chunk == chunk]


def _joined(arrived: _Arrived, times: FrameTimes, interval: float | None) -> FrameRecord:
    event = arrived.event
    engine = {name: getattr(event.stages, name) for name in ENGINE_STAGES}
    front = {
        "handover": max(0.0, arrived.at - event.stages.told_at),
        "pace": times.taken_at - arrived.at,
        "encode": times.encoded_at - times.taken_at,
        "send": times.sent_at - times.encoded_at,
    }
    return FrameRecord(
        chunk=times.chunk,
        number=times.number,
        pts=times.pts,
        released_at=event.stages.released_at,
        sent_at=times.sent_at,
        lateness=times.encoded_at - times.due,
        interval=interval,
        stages=MappingProxyType(engine | front),
    )


def seen_frames(message: Mapping[str, Any], now: float) -> list[SeenFrame]:
    """`frames` of a viewer's report that came at `now`: `[[rtp time stamp, buffer ms, shown ms,
    age ms], ...]`, the age being from the picture's coming there to the report's leaving; it may
    be missing. What is not of this shape, is negative or out of all reason, is left out."""
    given = message.get("frames")
    if not isinstance(given, list):
        return []
    return [frame for each in given[:MOST_REPORTED] if (frame := _read(each, now)) is not None]


def _read(entry: object, now: float) -> SeenFrame | None:
    if not isinstance(entry, list) or len(entry) not in (3, 4):
        return None
    if not all(isinstance(value, int | float) for value in entry):
        return None
    stamp, *times = entry
    if not (0 <= stamp < 2**32 and all(0 <= each <= 1e3 * LONGEST for each in times)):
        return None
    buffer, shown, *age = (each / 1e3 for each in times)
    echo = now - age[0] if age else None
    return SeenFrame(rtp_timestamp=int(stamp), buffer=buffer, shown=shown, echo=echo)
