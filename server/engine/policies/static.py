"""Static batching: a batch of chunks is formed, run to its end, and only then the next is formed.

The batch is filled from the queue, oldest first, with whatever work each chunk has: commits, steps,
different numbers of them. Rows that finish early leave their place empty; chunks that come
meanwhile wait. The difference from coalesced chunks (coalesced.py): those are in step. The
request-level scheduling that Orca (OSDI 2022, section 2) starts from.
"""

from collections.abc import Sequence

from onbeat.server.engine.policies.fcfs_chunk import expired
from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, filled, next_release, ready


class StaticBatch:
    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._batch: set[tuple[str, int]] = set()

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        waiting = ready(now, candidates)
        members = [c for c in waiting if (c.stream, c.chunk) in self._batch]
        if members:
            return Plan(rows=tuple(c.stream for c in filled(members, self._max_rows)))
        late = {c.stream for c in waiting if expired(now, c)}
        queue = [c for c in waiting if c.stream not in late]
        queue.sort(key=lambda c: (c.arrival, c.order))
        chosen = filled(queue, self._max_rows)
        self._batch = {(c.stream, c.chunk) for c in chosen}
        return Plan(
            rows=tuple(c.stream for c in chosen),
            drops=tuple(late),
            wake_at=next_release(now, candidates),
        )
