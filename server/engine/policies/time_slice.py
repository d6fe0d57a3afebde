"""Time slicing at chunk boundaries: one chunk at a time alone, the turn goes round the streams.

The stream whose turn it is keeps the device until its chunk is done, its commit included; then the
next stream with a chunk to make has it. No batching, no deadlines, except that a chunk which has
not begun when its time is over is dropped. The difference from fcfs-chunk: the order is that of the
streams, not that in which their chunks became ready. After the execution lease of TeleFuser's
stream scheduler (https://github.com/Tele-AI/TeleFuser, docs/en/stream_scheduler.md).
"""

from collections.abc import Sequence

from onbeat.server.engine.policies.fcfs_chunk import expired
from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, next_release, ready


class TimeSlice:
    def __init__(self) -> None:
        self._holder: tuple[str, int] | None = None
        self._turn = 0
        """`order` of the stream that had the last turn."""

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        waiting = ready(now, candidates)
        held = [c for c in waiting if self._holds(c)]
        if held:
            return Plan(rows=(held[0].stream,))
        late = {c.stream for c in waiting if expired(now, c)}
        queue = [c for c in waiting if c.stream not in late]
        wake_at = next_release(now, candidates)
        if not queue:
            self._holder = None
            return Plan(drops=tuple(sorted(late)), wake_at=wake_at)
        chosen = min(queue, key=lambda c: (c.order <= self._turn, c.order))
        self._holder, self._turn = (chosen.stream, chosen.chunk), chosen.order
        return Plan(rows=(chosen.stream,), drops=tuple(sorted(late)), wake_at=wake_at)

    def _holds(self, c: Candidate) -> bool:
        if self._holder is None or c.stream != self._holder[0]:
            return False
        chunk = self._holder[1]
        return c.chunk == chunk or (c.work == "commit" and c.chunk == chunk + 1)
