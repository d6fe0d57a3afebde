"""The records of a trace: plain data, made by trace.py, drawn by perfetto.py.

All instants are seconds on the system-wide monotonic clock. What it is not: a file format.
"""

import msgspec

from onbeat.server.vocabulary import DropCause

Detail = dict[str, int | float | str]


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
    """Anything else that took time on a lane: copies, plans made ahead; what the front does for a
    session, whose id is the lane then."""

    lane: str
    name: str
    start: float
    detail: Detail


class Mark(Record, frozen=True):
    """Something that happened at `end` on a lane or for a session."""

    lane: str
    name: str
    detail: Detail


AnyRecord = Planned | Forward | DecodedChunk | Chunk | Span | Mark
