"""Coalesced chunks: the chunks that are ready together run as one batch through all their steps.

The batch is in step throughout: all its rows are at the same step, and it includes the commits of
its own chunks. Chunks that become ready meanwhile wait for the next batch, which holds those with
as much work as the oldest of them. The difference from static batching (static.py): there a batch
is filled from the queue with whatever work it has, rows end at different times and leave holes.
After the coalesced chunk of TurboServe (arXiv 2606.19271, section 3.1), without its placement.
"""

from collections.abc import Sequence

from onbeat.server.engine.policies.fcfs_chunk import expired
from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, filled, next_release, ready


class Coalesced:
    def __init__(self, *, max_rows: int) -> None:
        self._max_rows = max_rows
        self._batch: dict[str, int] = {}
        """Chunk under way by stream."""

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        waiting = ready(now, candidates)
        members = [c for c in waiting if self._belongs(c)]
        if members:
            return Plan(rows=tuple(c.stream for c in filled(members, self._max_rows)))
        late = {c.stream for c in waiting if expired(now, c)}
        chosen = self._together([c for c in waiting if c.stream not in late])
        self._batch = {c.stream: c.chunk for c in chosen}
        return Plan(
            rows=tuple(c.stream for c in chosen),
            drops=tuple(sorted(late)),
            wake_at=next_release(now, candidates),
        )

    def _belongs(self, c: Candidate) -> bool:
        """To the batch under way: a row of its chunk, or the commit that follows it."""
        chunk = self._batch.get(c.stream)
        return chunk is not None and (
            c.chunk == chunk or (c.work == "commit" and c.chunk == chunk + 1)
        )

    def _together(self, queue: list[Candidate]) -> list[Candidate]:
        """The oldest chunk and those that can be in step with it."""
        if not queue:
            return []
        queue = sorted(queue, key=lambda c: (c.arrival, c.order))
        first = queue[0]
        same = [c for c in queue if (c.work, c.rows_left) == (first.work, first.rows_left)]
        return filled(same, self._max_rows)
