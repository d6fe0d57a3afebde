"""The state of one stream: its clock, its prompt, its place in the work of a chunk, its counters.

It knows what it needs next (`work`) and when its chunks are due. What it is not: a decision about
who runs (policies), the running (executor.py), or the decoding (decode.py).
"""

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from onbeat.models.spec import EncodedPrompt, ModelSpec
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.input_encode import input_stats
from onbeat.server.engine.input_track import StreamInput
from onbeat.server.engine.ladder import FirmRecord, Ladder
from onbeat.server.engine.messages import OpenStream, StreamStats
from onbeat.server.engine.pieces import PIECE_ROWS, forwards
from onbeat.server.engine.prompts import Blend
from onbeat.server.engine.reference import Reference
from onbeat.server.engine.scheduler import Candidate, Work
from onbeat.server.engine.window import Window
from onbeat.server.vocabulary import Place, Prompt, StreamKind, Transition

NOWHERE = -1
"""The prompt page of a stream that has no pages."""

ROUNDING = 1e-6
"""Of a chunk's length: an instant so close to a beat is that beat."""
MAX_DROPS_IN_A_ROW = 5
"""Then a chunk is made however late it is: a picture for the viewer, and a cost to learn from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a chunk is generated under; replaced as a whole at a chunk boundary."""

    prompt: Prompt
    encoded: EncodedPrompt
    seed: int
    steps: int | None
    revision: int
    strength: float | None = None
    """With an input: how far from it; None = the model's default."""
    transition: Transition = "cut"
    """How its prompt is taken up, if it differs from the one before."""
    blend: Blend | None = None
    """Where it is between two prompts; `encoded` is that mixture."""
    reset: bool = False
    """Taking it up begins a new scene."""


@dataclass(slots=True, kw_only=True)
class Counters:
    made: int = 0
    on_time: int = 0
    late: int = 0
    dropped: int = 0
    steps: int = 0
    """Of the last chunk."""
    by_steps: Counter[int] = field(default_factory=Counter)
    """Finished chunks by their steps."""
    reanchored: int = 0


@dataclass(slots=True, kw_only=True)
class ChunkTimes:
    """Instants of the chunk under way. Seconds: `denoise` of its forwards in all, `predicted` what
    they should have taken, `commit` of the commits before it that ran after its release."""

    released: float = 0.0
    started: float = 0.0
    denoise: float = 0.0
    predicted: float = 0.0
    commit: float = 0.0


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
    ladder: Ladder
    firm: FirmRecord
    pending: Conditions | None = None
    announced: bool = False
    """Whether the chunk at which the pending conditions begin has been told."""
    taken_at: int = -1
    """The chunk from which on the present conditions hold."""
    asked_at: int = 0
    """Chunk under way when the pending prompt was asked for."""
    chunk: int = 0
    """Index of the chunk under way, or the next one."""
    state: ChunkState | None = None
    """Of the chunk under way."""
    uncommitted: deque[ChunkState] = field(default_factory=deque)
    """Finished chunks that the cache does not hold yet: the last one, or a whole window."""
    history: deque[ChunkState] = field(default_factory=deque)
    """The final chunks of the window as it is once all of them are committed, oldest first: what
    keys and values can be built from again. Bounded by `history_chunks`."""
    place: Place = "resident"
    """Only resident streams step and commit (residency.py)."""
    piece: int = 1
    """How many of `uncommitted` its next commit takes, as rows of one forward."""
    fresh: bool = True
    """The next chunk is the first, or the first under a new prompt."""
    phase: float = 0.0
    """The instant of a chunk's length, counted from the clock's zero, at which it is due."""
    anchor: float | None = None
    """When the clock's first chunk was due; None before the stream has a clock."""
    beat: int = 0
    """Chunk n is due at `phase` plus (`beat` + n) chunk lengths, exactly: streams that share their
    phase share their instants to the last bit."""
    busy_until: float = -math.inf
    """When the last chunk that was published has been played; a new clock starts no earlier."""
    paused: bool = False
    """A live stream has a share of time while it is not paused."""
    running_since: float = 0.0
    """When it got its share of time."""
    drops_in_a_row: int = 0
    """Chunks dropped since the last one that was made."""
    in_decode: int = 0
    reference: Reference | None = None
    """What it goes on from; None once its history holds all of it, or if there is none."""
    unnamed: deque[int] = field(default_factory=deque)
    """Of the reference, the chunks at the front of `uncommitted` whose pages can be shared."""
    preparing: bool = False
    """No step before the decode lane has made what it begins with (intake.py)."""
    input: StreamInput | None = None
    """What it is made from beside its prompt; None for a stream without an input."""
    failed: str | None = None
    times: ChunkTimes = field(default_factory=ChunkTimes)
    commits: list[tuple[float, float]] = field(default_factory=list)
    """When its forwards with commits ran since its last chunk began."""
    counters: Counters = field(default_factory=Counters)

    @property
    def id(self) -> str:
        return self.opened.stream_id

    @property
    def is_live(self) -> bool:
        return self.opened.kind == "live"

    @property
    def begins_part(self) -> bool:
        """Its next chunk is the first under its part of a blend; what is pending comes after."""
        blend = self.pending.blend if self.pending is not None else None
        goes_on = blend is not None and blend.part > 1
        return goes_on and self.taken_at == self.chunk and self.state is None

    @property
    def ahead(self) -> float:
        """Chunk lengths between a chunk's release and its playout."""
        given = self.opened.video_input
        return self.opened.ahead_chunks if given is None else given.ahead_chunks

    @property
    def complete(self) -> bool:
        total = self.opened.total_chunks
        return total is not None and self.chunk >= total

    def has_work(self, job_ahead: int, filled: bool) -> bool:
        """Whether it could give a row now or later. Between two chunks a live stream without a
        clock waits for its first chunk to be ready, a job while `job_ahead` of its chunks wait.
        Only its prompt's page can be filled (`filled`: it is) while its pages are on their way."""
        if self.place != "resident" and (filled or self.place != "restoring"):
            return False
        if self.complete or (self.paused and self.state is None):
            return False
        if self.state is not None or self.uncommitted:
            return True
        if self.preparing or (self.input is not None and self.input.encoding >= 0):
            return False
        if self.is_live:
            return self.anchor is not None or self.in_decode == 0
        return self.in_decode < job_ahead

    def mind_clock(self, now: float, behind_chunks: int, spec: ModelSpec) -> None:
        """A stream that is too far behind gets a new clock instead of a burst of drops."""
        due = self.playout_at(self.chunk, spec)
        late = due is not None and now > due + behind_chunks * spec.chunk_seconds
        if late and not self.paused:
            self.anchor, self.wanted_at = None, now
            self.counters.reanchored += 1

    def playout_at(self, chunk: int, spec: ModelSpec) -> float | None:
        """When a chunk's first frame is due, or None while the stream has no clock."""
        if self.anchor is None:
            return None
        return self.phase + (self.beat + chunk) * spec.chunk_seconds

    def start_clock(self, chunk: int, not_before: float, spec: ModelSpec) -> None:
        """Chunk `chunk` is due at the first instant of the stream's phase from `not_before` on at
        which nothing that was published before is played."""
        start = max(not_before, self.busy_until) - self.phase
        beats = math.ceil(start / spec.chunk_seconds - ROUNDING)
        self.beat = beats - chunk
        self.anchor = self.phase + beats * spec.chunk_seconds

    def begin_chunk(self, now: float, spec: ModelSpec) -> None:
        """The chunk's first step is about to run: its times begin."""
        release = min(self.release_at(spec) if self.is_live else now, now)
        spent = sum(max(0.0, end - max(start, release)) for start, end in self.commits)
        self.times = ChunkTimes(released=release, started=now, commit=spent)
        self.commits.clear()

    def committed(self, start: float, end: float) -> None:
        """A forward with commits of it has run."""
        if self.state is None:
            self.commits.append((start, end))
        else:
            self.times.commit += end - start

    def release_at(self, spec: ModelSpec) -> float:
        """When the steps of the next chunk may start."""
        due = self.playout_at(self.chunk, spec)
        if due is None:
            return self.wanted_at
        return due - self.ahead * spec.chunk_seconds

    def keep(self, state: ChunkState, spec: ModelSpec) -> None:
        """A chunk is final: the cache wants it, the history has it."""
        self.uncommitted.append(state)
        self.history.append(state)
        if len(self.history) > history_chunks(self.opened.kind, spec):
            self.history.popleft()

    def recommit(self) -> None:
        """The whole window is to be committed again, under another prompt or into new pages."""
        self.window.forget(0)
        self.uncommitted = deque(self.history)

    def forget(self, keep: int) -> None:
        """Leaves only the newest `keep` chunks as history of the next one."""
        self.window.forget(keep)
        while len(self.history) > keep:
            self.history.popleft()

    def work(self, sink_filled: bool) -> Work:
        """A new prompt is only taken up once the chunks of the old one are committed."""
        if not sink_filled:
            return "prefill"
        return "commit" if self.uncommitted else "step"

    def asked_steps(self, spec: ModelSpec) -> int:
        return min(self.now.steps or spec.default_steps, spec.max_steps)

    def planned_steps(self, spec: ModelSpec) -> int:
        """Of the next chunk: the asked ones, fewer down the ladder; at a fresh start the level is
        taken off the longer first chunk."""
        asked = self.asked_steps(spec)
        if not self.fresh:
            return self.ladder.current(asked).steps if self.ladder.level else asked
        return max(1, first_steps(asked, spec) - self.ladder.level)

    def missed(self, spec: ModelSpec) -> None:
        """Its next chunk will never come."""
        self.counters.dropped += 1
        self.drops_in_a_row += 1
        self.firm.note(False)
        self.ladder.dropped(self.asked_steps(spec))

    def finished(self, steps: int, spec: ModelSpec, *, early: bool) -> None:
        """Its chunk has all the steps that it will get."""
        if early:
            self.ladder.ended_early(self.asked_steps(spec))
        else:
            self.ladder.ended()
        self.counters.steps = steps
        self.counters.by_steps[steps] += 1
        self.fresh = False
        self.drops_in_a_row = 0

    def stats(self, slack: float, spec: ModelSpec) -> StreamStats:
        c = self.counters
        level = self.ladder.current(self.asked_steps(spec))
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
            level=self.ladder.level,
            level_name=level.name,
            chunks_by_steps=dict(c.by_steps),
            firm_credit=self.firm.credit,
            firm_broken=self.firm.broken,
            input=input_stats(self.input),
        )


def first_steps(asked: int, spec: ModelSpec) -> int:
    """Steps of a chunk at a fresh start, where the others have `asked`."""
    return min(max(asked, spec.first_chunk_steps), spec.max_steps)


def all_steps(chunks: int, asked: int, spec: ModelSpec) -> int:
    """Steps of a job of so many chunks."""
    return first_steps(asked, spec) + (chunks - 1) * min(asked, spec.max_steps)


def history_chunks(kind: StreamKind, spec: ModelSpec) -> int:
    """How many final chunks a stream keeps: a live one its window; a job all that the bits of its
    window depend on, as what it makes must not depend on whether it was interrupted."""
    return spec.replay_chunks if kind == "job" else spec.window_chunks


def candidate(
    stream: Stream,
    spec: ModelSpec,
    filled: bool,
    compute_by: float,
    startup: float,
    grace: float = 0.0,
) -> Candidate:
    """What `stream` asks of the scheduler. `compute_by`: seconds before playout at which its last
    step should be done, `grace` more and it is late for sure; `startup`: seconds after opening at
    which a first chunk is wanted."""
    live, state, opened = stream.is_live, stream.state, stream.opened
    release, deadline, droppable = stream.wanted_at, float("inf"), False
    if live and stream.anchor is None:
        deadline = release + startup
    elif live:
        due = stream.phase + (stream.beat + stream.chunk) * spec.chunk_seconds
        release, deadline = due - stream.ahead * spec.chunk_seconds, due - compute_by
        droppable = stream.drops_in_a_row < MAX_DROPS_IN_A_ROW
    given = stream.input
    if given is not None and state is None and given.settled != stream.chunk:
        release += given.takes
    backlog = len(stream.uncommitted)
    commits = filled and backlog > 0
    width = min(PIECE_ROWS, backlog, stream.window.room) if commits else 1
    before = forwards(backlog, width) + (not filled)
    done, steps = (state.step, state.steps) if state else (0, stream.planned_steps(spec))
    return Candidate(
        opened.stream_id,
        opened.kind,
        "step" if not before else ("commit" if commits else "prefill"),
        stream.chunk,
        stream.order,
        stream.wanted_at if backlog else release,
        release,
        deadline,
        spec.chunk_seconds if live else 0.0,
        before + steps - done,
        before + (done == 0),
        done,
        1 + stream.asked_steps(spec),
        droppable,
        width,
        stream.firm.credit,
        opened.owner,
        backlog,
        grace,
    )
