"""One process per stream on a shared device, as one engine can act it: single rows in turn.

Independent processes cannot share a forward; a device gives each of them its share of the time.
That is processor sharing, and its limit with whole forwards is a round of all that are ready, one
row at a time. Streams know nothing of each other: no order, no deadlines; a chunk that has not
begun when its time is over is dropped. Costs of separate processes (weights held once each,
switching) are left out, which favours this baseline. Kleinrock, "Queueing Systems" 2, 1976, section
4.4.
"""

from collections.abc import Sequence

from onbeat.server.engine.policies.fcfs_chunk import expired
from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, next_release, ready


class ProcessPerStream:
    def __init__(self) -> None:
        self._turn = 0
        """`order` of the stream that ran last."""

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        waiting = ready(now, candidates)
        late = {c.stream for c in waiting if expired(now, c)}
        queue = [c for c in waiting if c.stream not in late]
        wake_at = next_release(now, candidates)
        if not queue:
            return Plan(drops=tuple(sorted(late)), wake_at=wake_at)
        chosen = min(queue, key=lambda c: (c.order <= self._turn, c.order))
        self._turn = chosen.order
        return Plan(rows=(chosen.stream,), drops=tuple(sorted(late)), wake_at=wake_at)
