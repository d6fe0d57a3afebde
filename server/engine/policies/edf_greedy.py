"""Earliest deadline first in the largest batch: what one writes first.

Every tick the ready rows with the earliest deadlines run, as many as are allowed; chunks that
cannot be on time even alone are dropped. No look at what the batch costs its members: past capacity
all become late together. EDF: Liu and Layland, "Scheduling algorithms for multiprogramming in a
hard real-time environment", JACM 20(1), 1973.
"""

from collections.abc import Sequence

from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, filled, next_release, ready


class EdfGreedy:
    def __init__(self, *, max_rows: int) -> None:
        self._max_rows = max_rows

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        alone = cost.median(1)
        drops = {c.stream for c in candidates if _hopeless(now, c, alone)}
        waiting = [c for c in ready(now, candidates) if c.stream not in drops]
        waiting.sort(key=lambda c: (c.deadline, c.order))
        return Plan(
            rows=tuple(c.stream for c in filled(waiting, self._max_rows)),
            drops=tuple(sorted(drops)),
            wake_at=next_release(now, candidates),
        )


def _hopeless(now: float, c: Candidate, alone: float) -> bool:
    """Released, and late with all its steps even if it has the device for itself."""
    return c.droppable and c.arrival <= now and now + c.rows_left * alone > c.deadline
