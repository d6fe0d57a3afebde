"""Iteration-level batching, first come first served: each tick the largest batch of what is ready.

Rows join and leave at every step, in the order in which their chunks arrived; a chunk is one
request. No deadlines, except that a chunk which has not begun when its time is over is dropped. Yu
et al., "Orca: A Distributed Serving System for Transformer-Based Generative Models", OSDI 2022,
section 3 (iteration-level scheduling, the selection of algorithm 1).
"""

from collections.abc import Sequence

from onbeat.server.engine.policies.fcfs_chunk import expired
from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, filled, next_release, ready


class Orca:
    def __init__(self, *, max_rows: int) -> None:
        self._max_rows = max_rows

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        waiting = ready(now, candidates)
        late = {c.stream for c in waiting if expired(now, c)}
        queue = [c for c in waiting if c.stream not in late]
        queue.sort(key=lambda c: (c.arrival, c.order))
        return Plan(
            rows=tuple(c.stream for c in filled(queue, self._max_rows)),
            drops=tuple(sorted(late)),
            wake_at=next_release(now, candidates),
        )
