"""First come, first served, a whole chunk at a time: the baseline that most servers are.

The chunk that could have started first runs alone until it is done. No batching, no deadlines,
except that a chunk which has not begun when its time is over is dropped.
"""

from collections.abc import Sequence

from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, next_release, ready


class FcfsChunk:
    def __init__(self) -> None:
        self._running: tuple[str, int] | None = None

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        waiting = ready(now, candidates)
        current = [c for c in waiting if (c.stream, c.chunk) == self._running]
        if current:
            return Plan(rows=(current[0].stream,))
        late = {c.stream for c in waiting if expired(now, c)}
        queue = [c for c in waiting if c.stream not in late]
        if not queue:
            self._running = None
            return Plan(drops=tuple(late), wake_at=next_release(now, candidates))
        first = min(queue, key=lambda c: (c.arrival, c.order))
        self._running = (first.stream, first.chunk)
        return Plan(rows=(first.stream,), drops=tuple(late))


def expired(now: float, candidate: Candidate) -> bool:
    """Not begun, and nothing that starts now can be on time."""
    return candidate.droppable and candidate.steps_done == 0 and now > candidate.deadline
