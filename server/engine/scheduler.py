"""What a scheduling policy is told and what it answers. Plain data: no tensors, no engine.

One interface for every policy, so that they run on the same executor and their differences are
measured, not argued. The policies live in `onbeat.server.engine.policies`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from onbeat.server.vocabulary import StreamKind

Work = Literal["prefill", "commit", "step"]


class Candidate(NamedTuple):
    """The rows that a stream could contribute next, and what its chunk still needs.

    A chunk's work is: the prompt's prefill if the prompt is new, the commit of the chunk before it,
    its steps. Instants are seconds on the engine's clock. A tuple, because one is made for every
    stream in every tick; give the fields by name.
    """

    stream: str
    kind: StreamKind
    work: Work
    chunk: int
    order: int
    """Position among all streams, by arrival."""
    release: float
    """The row may not run before."""
    arrival: float
    """When the chunk could first have started (first come, first served)."""
    deadline: float
    """When the chunk's last step must be done; infinite for jobs."""
    period: float
    """Seconds between this stream's chunks; 0 for jobs."""
    rows_left: int
    """Forwards still to run for this chunk with the steps planned, this one included."""
    rows_needed: int
    """The same at the lowest quality: commit, prefill and a first step; 0 if a step is done."""
    steps_done: int
    chunk_rows: int
    """Forwards of each later chunk (commit and planned steps)."""
    droppable: bool
    """False while the stream has no clock yet (its first chunk), and after many drops in a row."""
    width: int = 1
    """Rows of the batch that it takes if chosen; pieces of a long history take several."""
    credit: int = 1
    """Misses that the stream may still have among its last k chunks; below 0: it had too many."""
    owner: str = ""
    """Whose stream it is: a hash of the API key."""
    backlog: int = 0
    """Finished chunks that are to be committed before its first step."""
    grace: float = 0.0
    """Seconds behind its deadline at which its last step may be done with its slot still in time:
    what is kept for encoding and sending is aimed at, and no reason to give a chunk up."""

    @property
    def is_piece(self) -> bool:
        """It comes on top of regular work: a prompt to fill, or a part of a window to commit."""
        return self.backlog > 1 or self.work == "prefill"

    @property
    def optional(self) -> bool:
        """The chunk has a valid picture already; this step only makes it better."""
        return self.work == "step" and self.steps_done > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Streams by id. `rows` run in one forward; `finish` end their chunk with the steps it has;
    `drops` lose their chunk. `wake_at`: when planning again is worth while if there are no rows."""

    rows: tuple[str, ...] = ()
    finish: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    wake_at: float = float("inf")


class StepCost(Protocol):
    """The part of the cost model that policies use."""

    def median(self, rows: int) -> float: ...

    def predict(self, rows: int) -> float: ...

    def row_seconds(self, rows: int) -> float: ...


class Policy(Protocol):
    """Decides one tick. May keep state between ticks, but no clock of its own."""

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        """`candidates`: one for every stream with work, those released later too."""


def ready(now: float, candidates: Sequence[Candidate]) -> list[Candidate]:
    return [c for c in candidates if c.release <= now]


def next_release(now: float, candidates: Sequence[Candidate]) -> float:
    return min((c.release for c in candidates if c.release > now), default=float("inf"))


def filled(order: Sequence[Candidate], most: int) -> list[Candidate]:
    """The candidates in this order whose widths together are at most `most` rows, at least one."""
    chosen: list[Candidate] = []
    left = most
    for c in order:
        if c.width <= left or not chosen:
            chosen.append(c)
            left -= c.width
    return chosen
