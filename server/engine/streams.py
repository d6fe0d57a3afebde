"""The state of one stream: its clock, its prompt, its place in the work of a chunk, its counters.

It knows what it needs next (`work`) and when its chunks are due. What it is not: a decision about
who runs (policies), the running (executor.py), or the decoding (decode.py).
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from onbeat.models.spec import EncodedPrompt, ModelSpec
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.messages import OpenStream, StreamStats
from onbeat.server.engine.pool import Window
from onbeat.server.engine.scheduler import Candidate, Work

MAX_DROPS_IN_A_ROW = 5
"""Then a chunk is made however late it is: a picture for the viewer, and a cost to learn from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a chunk is generated under; replaced as a whole at a chunk boundary."""

    prompt: str
    encoded: EncodedPrompt
    seed: int
    steps: int | None
    revision: int


@dataclass(slots=True, kw_only=True)
class Counters:
    made: int = 0
    on_time: int = 0
    late: int = 0
    dropped: int = 0
    steps: int = 0
    reanchored: int = 0


@dataclass(slots=True, kw_only=True)
class ChunkTimes:
    """Instants of the chunk under way; `denoise` adds up seconds of its forwards."""

    released: float = 0.0
    started: float = 0.0
    denoise: float = 0.0


@dataclass(slots=True, kw_only=True)
class Stream:
    """Mutable; the tick thread owns it."""

    opened: OpenStream
    order: int
    wanted_at: float
    """Since when a first chunk is wanted: opening, resuming, or a lost clock."""
    now: Conditions
    sink: int
    window: Window
    decoder: Any
    ladder: "Ladder"
    pending: Conditions | None = None
    chunk: int = 0
    """Index of the chunk under way, or the next one."""
    state: ChunkState | None = None
    """Of the chunk under way."""
    uncommitted: deque[ChunkState] = field(default_factory=deque)
    """Finished chunks that the cache does not hold yet: the last one, or a snapshot's window."""
    fresh: bool = True
    """The next chunk is the first, or the first under a new prompt."""
    anchor: float | None = None
    """When `anchor_chunk` is due; None before the stream has a clock."""
    anchor_chunk: int = 0
    paused: bool = False
    drops_in_a_row: int = 0
    """Chunks dropped since the last one that was made."""
    in_decode: int = 0
    failed: str | None = None
    times: ChunkTimes = field(default_factory=ChunkTimes)
    counters: Counters = field(default_factory=Counters)

    @property
    def id(self) -> str:
        return self.opened.stream_id

    @property
    def is_live(self) -> bool:
        return self.opened.kind == "live"

    @property
    def complete(self) -> bool:
        total = self.opened.total_chunks
        return total is not None and self.chunk >= total

    def playout_at(self, chunk: int, spec: ModelSpec) -> float | None:
        """When a chunk's first frame is due, or None while the stream has no clock."""
        if self.anchor is None:
            return None
        return self.anchor + (chunk - self.anchor_chunk) * spec.chunk_seconds

    def release_at(self, spec: ModelSpec) -> float:
        """When the steps of the next chunk may start."""
        due = self.playout_at(self.chunk, spec)
        if due is None:
            return self.wanted_at
        return due - self.opened.ahead_chunks * spec.chunk_seconds

    def work(self, sink_filled: bool) -> Work:
        """A new prompt is only taken up once the chunks of the old one are committed."""
        if not sink_filled:
            return "prefill"
        return "commit" if self.uncommitted else "step"

    def planned_steps(self, spec: ModelSpec) -> int:
        """Of the next chunk: the asked ones, more at a fresh start, fewer down the ladder."""
        steps = self.now.steps or spec.default_steps
        if self.fresh:
            steps = max(steps, spec.first_chunk_steps)
        return max(1, min(steps, spec.max_steps) - self.ladder.level)

    def stats(self, slack: float) -> StreamStats:
        c = self.counters
        return StreamStats(
            stream_id=self.id,
            kind=self.opened.kind,
            chunks=c.made,
            chunks_on_time=c.on_time,
            chunks_late=c.late,
            chunks_dropped=c.dropped,
            steps_now=self.state.steps if self.state is not None else c.steps,
            slack=slack,
            paused=self.paused,
        )


@dataclass(slots=True, kw_only=True)
class Ladder:
    """Steps taken off a stream's chunks: one more if two chunks in short order ended early or one
    was dropped, one back after calm."""

    recover_chunks: int
    deepest: int
    level: int = 0
    _calm: int = 1 << 30
    """Chunks since the last one that ended early."""

    def dropped(self) -> None:
        self._calm = 0
        self.level = min(self.level + 1, self.deepest)

    def ended_early(self) -> None:
        if self._calm < self.recover_chunks:
            self.level = min(self.level + 1, self.deepest)
        self._calm = 0

    def ended(self) -> None:
        """A chunk had all its planned steps."""
        self._calm += 1
        if self._calm >= self.recover_chunks and self.level > 0:
            self.level -= 1
            self._calm = 0


def candidate(
    stream: Stream, spec: ModelSpec, *, filled: bool, compute_by: float, startup: float
) -> Candidate:
    """What `stream` asks of the scheduler. `compute_by`: seconds before playout at which its last
    step must be done; `startup`: seconds after opening at which a first chunk is wanted."""
    due = stream.playout_at(stream.chunk, spec)
    release = stream.release_at(spec)
    deadline = stream.wanted_at + startup if due is None else due - compute_by
    if not stream.is_live:
        release, deadline = stream.wanted_at, float("inf")
    work = stream.work(filled)
    done = stream.state.step if stream.state is not None else 0
    steps = stream.state.steps if stream.state is not None else stream.planned_steps(spec)
    before = len(stream.uncommitted) + (not filled)
    return Candidate(
        stream=stream.id,
        kind=stream.opened.kind,
        work=work,
        chunk=stream.chunk,
        order=stream.order,
        release=stream.wanted_at if work == "commit" else release,
        arrival=release,
        deadline=deadline,
        period=spec.chunk_seconds if stream.is_live else 0.0,
        rows_left=before + steps - done,
        rows_needed=before + (done == 0),
        steps_done=done,
        chunk_rows=1 + (stream.now.steps or spec.default_steps),
        droppable=due is not None and stream.drops_in_a_row < MAX_DROPS_IN_A_ROW,
    )
