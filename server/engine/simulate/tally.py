"""What came of a simulation: per stream which chunks were on time, and when each could be made.

A stream of n chunks has n playout instants, counted from its first one; whatever was not there in
time is missed, why ever, and a clock that was moved back does not take that away. What it is not:
the running (world.py), or a bound (bound.py).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    Event,
    StreamEnded,
    StreamOpened,
    StreamRefused,
)
from onbeat.server.engine.simulate.workload import Session

CLEAN = 0.99
EPSILON = 1e-6


@dataclass(slots=True, kw_only=True)
class StreamTally:
    """One session. `due`: its chunks; `first_due`: when the first one was to be played, None if it
    never came; `full`: chunks on time that had all the steps that were asked for."""

    session: Session
    due: int
    admitted: bool = False
    first_due: float | None = None
    on_time: int = 0
    full: int = 0
    late: int = 0
    dropped: int = 0
    steps: Counter[int] = field(default_factory=Counter)
    ended: str = ""
    error: str | None = None
    reason: str = ""

    @property
    def ratio(self) -> float:
        return self.on_time / self.due

    @property
    def clean(self) -> bool:
        return self.ratio >= CLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`streams` in the order of the sessions; `batches`: rows of each forward; seconds are of the
    simulation except `real_seconds`."""

    streams: tuple[StreamTally, ...]
    period: float
    seconds: float
    real_seconds: float
    ticks: int
    batches: tuple[int, ...]
    busy: float
    restarts: int
    drops: dict[str, int]

    @property
    def admitted(self) -> list[StreamTally]:
        return [s for s in self.streams if s.admitted]

    @property
    def clean(self) -> int:
        """Streams with at least 99 % of their chunks on time."""
        return sum(s.clean for s in self.streams)

    @property
    def on_time_ratio(self) -> float:
        """Chunks on time of those due, over all admitted streams."""
        due = sum(s.due for s in self.admitted)
        return sum(s.on_time for s in self.admitted) / due if due else 0.0

    @property
    def full(self) -> int:
        """Chunks on time with all their steps: what is compared with the bound."""
        return sum(s.full for s in self.streams)

    @property
    def mean_steps(self) -> float:
        made: Counter[int] = sum((s.steps for s in self.streams), Counter())
        return sum(n * k for n, k in made.items()) / max(1, made.total())

    @property
    def speed(self) -> float:
        """Simulated seconds per real one."""
        return self.seconds / max(self.real_seconds, 1e-9)


def chunks_of(session: Session, spec: ModelSpec) -> int:
    return max(1, round(session.seconds / spec.chunk_seconds))


def count(
    sessions: Sequence[Session], events: Sequence[Event], spec: ModelSpec
) -> list[StreamTally]:
    """Books every event to its stream."""
    tallies = {s.name: StreamTally(session=s, due=chunks_of(s, spec)) for s in sessions}
    for event in events:
        match event:
            case StreamOpened():
                tallies[event.stream_id].admitted = True
            case StreamRefused():
                tallies[event.stream_id].reason = event.reason
            case ChunkReady():
                _ready(tallies[event.stream_id], event, spec)
            case ChunkDropped():
                tallies[event.stream_id].dropped += 1
            case StreamEnded():
                tallies[event.stream_id].ended = event.reason
                tallies[event.stream_id].error = event.error
            case _:
                pass
    return list(tallies.values())


def _ready(tally: StreamTally, event: ChunkReady, spec: ModelSpec) -> None:
    live = tally.session.kind.kind == "live"
    if tally.first_due is None:
        tally.first_due = event.playout_at
    end = tally.first_due + tally.due * spec.chunk_seconds - EPSILON
    good = event.on_time and (not live or event.playout_at < end)
    tally.on_time += good
    tally.late += not good
    tally.full += good and event.steps >= tally.session.kind.steps
    tally.steps[event.steps] += 1
