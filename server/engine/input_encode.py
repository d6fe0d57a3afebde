"""From pictures to what a chunk starts from: when a chunk is released, its clip is encoded on the
decode lane, one chunk a task, and its first step waits for that.

Deadline-aware: an encode goes before decodes that are due later, but never two of them in a row, so
that a decode waits for one at most. What it is not: the choice of rows (policies), or the lane.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.calibration import Calibration
from onbeat.server.engine.device import Executor, LaneTask
from onbeat.server.engine.input_track import StreamInput, motion_of
from onbeat.server.engine.messages import InputStats

if TYPE_CHECKING:
    from onbeat.server.engine.streams import Stream

Submit = Callable[["Stream", LaneTask, Callable[["Stream", Any, float], None]], None]
RATE = 0.1
LATE_CHUNKS = 1.0
"""A chunk that begins so many chunk lengths after its release takes the newest pictures instead of
those of its own time: its pictures are never older than this when they are encoded."""
STEPS_SHARE = 0.5
"""Of a chunk's lead, kept for its steps and its decoding."""


class EncodeCost:
    """Predicted seconds of one encode: as calibrated, then as seen (a moving mean)."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def start(self, calibration: Calibration | None) -> None:
        for table in calibration.tables if calibration is not None else ():
            if table.kind == "reference":
                self.seconds = min(table.p50_ms.values()) / 1e3

    def observe(self, seconds: float) -> None:
        self.seconds += RATE * (seconds - self.seconds)


class InputEncoder:
    """Owned by the tick thread."""

    def __init__(
        self, spec: ModelSpec, executor: Executor, submit: Submit, cost: EncodeCost
    ) -> None:
        self._spec, self._executor, self._submit, self._cost = spec, executor, submit, cost
        self.wake_at = float("inf")
        """The next instant at which a chunk is released whose clip is to be taken."""

    def tick(self, streams: Iterable["Stream"], now: float) -> None:
        """Takes the clips of all chunks that are released by now."""
        self.wake_at = float("inf")
        for stream in streams:
            given = stream.input
            if given is not None and _wants(stream, given):
                given.takes = self._cost.seconds
                release = stream.release_at(self._spec)
                if release <= now:
                    self._take(stream, given, release, now)
                else:
                    self.wake_at = min(self.wake_at, release)

    def _take(self, stream: "Stream", given: StreamInput, release: float, now: float) -> None:
        spec, chunk = self._spec, stream.chunk
        due = stream.playout_at(chunk, spec)
        late = due is None or now - release > LATE_CHUNKS * spec.chunk_seconds
        clip = given.track.clip(now if late else release)
        if clip is None:
            given.settle(chunk, None)
            given.last = given.level = given.lag = None
            return
        given.encoding = chunk
        given.motion = motion_of(clip.pictures, given.last) if given.asked.motion_aware else 0.0
        given.last = clip.pictures[-1]
        given.lag = None if due is None else due - clip.at
        lead = STEPS_SHARE * stream.ahead * spec.chunk_seconds
        deadline = stream.wanted_at if due is None else due - lead
        run = partial(self._executor.encode_input, clip)
        task = LaneTask(run=run, name=f"input {chunk}", deadline=deadline)
        self._submit(stream, task, partial(self._taken, chunk))

    def _taken(self, chunk: int, stream: "Stream", source: Any, now: float) -> None:
        """A clip whose chunk was given up meanwhile is worth nothing."""
        assert stream.input is not None, stream.id
        stream.input.encoding = -1
        if stream.chunk == chunk and stream.state is None:
            stream.input.settle(chunk, source)


def _wants(stream: "Stream", given: StreamInput) -> bool:
    """Between two chunks, with nothing known of the next one yet, and no encode under way."""
    if stream.state is not None or given.encoding >= 0 or given.settled == stream.chunk:
        return False
    if stream.paused or stream.preparing or stream.complete or stream.place != "resident":
        return False
    return stream.anchor is not None or stream.in_decode == 0


def input_stats(given: StreamInput | None) -> InputStats | None:
    """None while the stream is made from its prompt alone."""
    if given is None or given.source is None:
        return None
    return InputStats(age=given.lag or 0.0, strength=given.level)
