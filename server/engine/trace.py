"""What ran when, of the last seconds: a bounded ring of small records, made as things happen.

Recording is an append; nothing is formatted here. Records are plain data that travel to the front
as they are and become a trace file there (perfetto.py). Instants are seconds on the monotonic
clock. What it is not: counters (stats.py), or a log.
"""

from collections import deque
from collections.abc import Sequence
from itertools import takewhile

import msgspec

from onbeat.server.engine.device import Decoded
from onbeat.server.engine.scheduler import Candidate, Plan
from onbeat.server.engine.streams import Stream
from onbeat.server.vocabulary import DropCause

LONGEST_SECONDS = 10.0
MOST_RECORDS = 16_384
"""About 10 s of a full engine; a longer past is forgotten."""


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Base of all records; `end` is when it was over."""

    end: float


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One stream's share of a forward: step `step` of `steps`, or (0 of 0) a commit of `width`
    chunks or a prefill."""

    stream: str
    chunk: int
    work: str
    step: int
    steps: int
    width: int


class Planned(Record, frozen=True):
    """One plan. `slack`: of the tightest live stream, seconds; None without one."""

    start: float
    rows: int
    finished: int
    dropped: int
    pages: int
    slack: float | None


class Forward(Record, frozen=True):
    """One batch on the compute lane."""

    start: float
    rows: list[Row]


class DecodedChunk(Record, frozen=True):
    """One chunk of a batch on the decode lane; chunks with the same instants shared it. `middle`:
    decoded, not yet converted and written to its slot."""

    start: float
    middle: float
    stream: str
    chunk: int


class Chunk(Record, frozen=True):
    """A live chunk's fate at `end`. `deadline`: by when its last step should have been done;
    `cause`: of a chunk that was late, or never came (`dropped`)."""

    stream: str
    chunk: int
    released: float
    deadline: float
    playout: float
    cause: DropCause | None
    dropped: bool


class Span(Record, frozen=True):
    """Anything else on a lane: copies, prefills."""

    lane: str
    name: str
    start: float
    detail: dict[str, int | float | str]


AnyRecord = Planned | Forward | DecodedChunk | Chunk | Span


class Trace:
    """The ring. The tick thread writes; `on` False makes every call return at once."""

    def __init__(self, *, on: bool = True) -> None:
        self.on = on
        self._records: deque[AnyRecord] = deque(maxlen=MOST_RECORDS)

    def since(self, instant: float) -> list[AnyRecord]:
        """Records that ended after `instant`, oldest first."""
        recent = list(takewhile(lambda r: r.end > instant, reversed(self._records)))
        recent.reverse()
        return recent

    def planned(
        self,
        start: float,
        end: float,
        candidates: Sequence[Candidate],
        plan: Plan,
        *,
        pages: int,
        row: float,
    ) -> None:
        """A plan that decided something. `row`: predicted seconds of a forward of one row."""
        if not self.on or not (plan.rows or plan.finish or plan.drops):
            return
        slack = min((c.deadline - end - c.rows_left * row for c in candidates), default=None)
        if slack == float("inf"):
            slack = None
        rows, finished, dropped = len(plan.rows), len(plan.finish), len(plan.drops)
        self._records.append(Planned(end, start, rows, finished, dropped, pages, slack))

    def forward(
        self, start: float, end: float, steps: Sequence[Stream], commits: Sequence[Stream]
    ) -> None:
        """A batch that ran: each step row's state is the one after it."""
        if self.on:
            rows = [_step(stream) for stream in steps]
            rows += [Row(s.id, s.chunk - 1, "commit", 0, 0, s.piece) for s in commits]
            self._records.append(Forward(end, start, rows))

    def prefill(self, start: float, end: float, streams: Sequence[Stream]) -> None:
        """Prompts whose keys and values were written before a forward."""
        if self.on:
            rows = [Row(s.id, s.chunk, "prefill", 0, 0, 1) for s in streams]
            self._records.append(Forward(end, start, rows))

    def decoded(self, result: Decoded) -> None:
        if self.on:
            job, middle = result.job, result.ready_at - result.convert
            start = middle - result.decode
            self._records.append(
                DecodedChunk(result.ready_at, start, middle, job.stream, job.chunk)
            )

    def chunk(
        self,
        at: float,
        stream: str,
        chunk: int,
        *,
        released: float,
        deadline: float,
        playout: float,
        cause: DropCause | None = None,
        dropped: bool = False,
    ) -> None:
        """A live chunk lies in its slot, or never will."""
        if self.on:
            self._records.append(
                Chunk(at, stream, chunk, released, deadline, playout, cause, dropped)
            )

    def span(
        self, lane: str, name: str, start: float, end: float, **detail: int | float | str
    ) -> None:
        """Anything else that took time on a lane ("copy-in", "copy-out", ...)."""
        if self.on:
            self._records.append(Span(end, lane, name, start, detail))


def _step(stream: Stream) -> Row:
    state = stream.state
    assert state is not None, stream.id
    return Row(stream.id, stream.chunk, "step", state.step, state.steps, 1)
