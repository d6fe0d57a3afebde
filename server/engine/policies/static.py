"""Static batching: a batch of chunks is formed, run to its end, and only then the next is formed.

Rows that finish early leave their place empty; chunks that come meanwhile wait for the next batch.
"""

from collections.abc import Sequence

from onbeat.server.engine.policies.fcfs_chunk import expired
from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, next_release, ready


class StaticBatch:
    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._batch: set[tuple[str, int]] = set()

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        waiting = ready(now, candidates)
        members = [c for c in waiting if (c.stream, c.chunk) in self._batch]
        if members:
            return Plan(rows=tuple(c.stream for c in members))
        late = {c.stream for c in waiting if expired(now, c)}
        queue = [c for c in waiting if c.stream not in late]
        queue.sort(key=lambda c: (c.arrival, c.order))
        chosen = queue[: self._max_rows]
        self._batch = {(c.stream, c.chunk) for c in chosen}
        return Plan(
            rows=tuple(c.stream for c in chosen),
            drops=tuple(late),
            wake_at=next_release(now, candidates),
        )
