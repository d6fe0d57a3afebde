"""Names the cause of every chunk that is missed, says so, and records what became of each chunk.

What it is not: the rule (blame.py), or the decision to drop (policies).
"""

from collections.abc import Callable
from dataclasses import dataclass

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.blame import Course, blame
from onbeat.server.engine.device import Costs, Decoded
from onbeat.server.engine.messages import ChunkDropped, Event
from onbeat.server.engine.streams import ChunkTimes, Stream
from onbeat.server.engine.trace import Trace
from onbeat.server.vocabulary import DropCause


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A chunk whose latents are final. `compute_by`: seconds before its playout at which they were
    wanted."""

    stream: Stream
    chunk: int
    revision: int
    steps: int
    last: bool
    times: ChunkTimes
    finished_at: float
    compute_by: float


class Misses:
    """One for an engine; live streams only."""

    def __init__(
        self, spec: ModelSpec, costs: Costs, trace: Trace, emit: Callable[[Event], None]
    ) -> None:
        self._spec, self._costs, self._trace, self._emit = spec, costs, trace, emit

    def delivered(self, finished: Finished, result: Decoded, due: float) -> DropCause | None:
        """A chunk lies in its slot. Its cause if it is late, None if it is in time."""
        cause = None
        if result.ready_at > due:
            slot = result.job.queued_at - finished.finished_at
            cause = blame(self._course(finished, due, slot))
        self._note(result.ready_at, finished, due, cause, dropped=False)
        return cause

    def expired(self, finished: Finished, now: float, due: float) -> None:
        """A chunk was still without a slot when it was due."""
        cause = blame(self._course(finished, due, now - finished.finished_at))
        self._note(now, finished, due, cause, dropped=True)
        self._dropped(finished.stream, finished.chunk, cause, due)

    def given_up(self, stream: Stream, now: float, compute_by: float) -> None:
        """The chunk under way, or the next one, is not made any more."""
        due = stream.playout_at(stream.chunk, self._spec)
        assert due is not None, f"{stream.id}: a chunk without a clock cannot be late"
        state, row = stream.state, self._costs.compute.median(1)
        steps = state.steps - state.step if state is not None else 1
        left = row * (len(stream.uncommitted) + steps)
        times = stream.times if state is not None else ChunkTimes()
        released = times.released if state is not None else stream.release_at(self._spec)
        course = Course(
            due=min(due, now + left + compute_by - 1e-9),
            released=min(released, now),
            finished=now + left,
            predicted=times.predicted + left,
            denoise=times.denoise + left,
            decode=compute_by,
        )
        cause = blame(course)
        self._trace.chunk(
            now,
            stream.id,
            stream.chunk,
            released=released,
            deadline=due - compute_by,
            playout=due,
            cause=cause,
            dropped=True,
        )
        self._dropped(stream, stream.chunk, cause, due)

    def _dropped(self, stream: Stream, chunk: int, cause: DropCause, due: float) -> None:
        self._emit(ChunkDropped(stream_id=stream.id, chunk=chunk, cause=cause, playout_at=due))

    def _course(self, finished: Finished, due: float, slot: float) -> Course:
        times = finished.times
        return Course(
            due=due,
            released=times.released,
            finished=finished.finished_at,
            predicted=times.predicted,
            denoise=times.denoise,
            decode=self._costs.decode.median(1),
            slot=slot,
        )

    def _note(
        self, at: float, finished: Finished, due: float, cause: DropCause | None, *, dropped: bool
    ) -> None:
        self._trace.chunk(
            at,
            finished.stream.id,
            finished.chunk,
            released=finished.times.released,
            deadline=due - finished.compute_by,
            playout=due,
            cause=cause,
            dropped=dropped,
        )
