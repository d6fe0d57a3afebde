"""EDF-S: earliest deadline first with deadline-safe, efficient batches and anytime chunks.

Each tick, in this order: drop chunks that cannot be on time even alone at one step; order the rest
by deadline; add rows while every member still finishes in time if its later steps run at half this
batch, and while rows per second grow by more than 2 %. First steps, commits and prefills are what a
picture needs; further steps run only if all needed work of all streams then still fits before its
deadline, otherwise the chunk ends with the picture it has. Jobs run in what is left: they ride
along in a live batch where it pays, or take a whole step that delays no planned live row.
"""

from collections.abc import Sequence
from itertools import chain

from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, next_release, ready

GAIN = 1.02
"""How much more a batch must get done per second for one more row to join it."""
HORIZON_CHUNKS = 2
"""How many chunks of each stream the slack looks ahead."""
START_SECONDS = 0.25
"""Within this a late first chunk is expected when slack is counted."""


class EdfS:
    """`anytime`: whether chunks may end before their planned steps."""

    def __init__(self, *, max_rows: int, anytime: bool = True) -> None:
        self._max_rows = max_rows
        self._anytime = anytime

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        live = [c for c in candidates if c.kind == "live"]
        drops = {c.stream for c in live if self._hopeless(now, c, cost)}
        live = [c for c in live if c.stream not in drops]
        wanted = sorted(ready(now, live), key=lambda c: (c.deadline, c.order))
        finish = self._early(now, wanted, live, cost) if self._anytime else set()
        wanted = [c for c in wanted if c.stream not in finish]
        rows = self._batch(now, wanted, cost)
        jobs = ready(now, [c for c in candidates if c.kind == "job"])
        rows = self._with_jobs(now, rows, wanted, jobs, live, cost)
        return Plan(
            rows=tuple(c.stream for c in rows),
            finish=tuple(sorted(finish)),
            drops=tuple(sorted(drops)),
            wake_at=next_release(now, candidates),
        )

    def _hopeless(self, now: float, c: Candidate, cost: StepCost) -> bool:
        """Even alone, at the fewest rows allowed, the chunk would be late."""
        rows = c.rows_needed if self._anytime else c.rows_left
        return c.droppable and rows > 0 and max(now, c.release) + rows * cost.median(1) > c.deadline

    def _early(
        self, now: float, wanted: list[Candidate], live: list[Candidate], cost: StepCost
    ) -> set[str]:
        """Chunks that should end now: their next step does not fit, for them or for the others."""
        optional = [c for c in wanted if c.optional]
        if not optional:
            return set()
        row = cost.row_seconds(min(self._max_rows, len(live)))
        left = slack(now, live, row, whole=False) - (cost.predict(1) - row)
        early = set()
        for c in optional:
            late = c.droppable and now + cost.predict(1) > c.deadline
            left -= row
            if late or left < 0.0:
                early.add(c.stream)
                left += row
        return early

    def _batch(self, now: float, wanted: list[Candidate], cost: StepCost) -> list[Candidate]:
        rows: list[Candidate] = []
        for c in wanted[: self._max_rows]:
            if rows and not (pays(len(rows), cost) and self._safe(now, [*rows, c], cost)):
                break
            rows.append(c)
        return rows

    def _safe(self, now: float, rows: list[Candidate], cost: StepCost) -> bool:
        """Every member that could be on time alone still is, with its later steps at half size."""
        this = cost.predict(len(rows))
        later = cost.predict(max(1, len(rows) // 2))
        alone = cost.predict(1)
        for c in rows:
            left = self._rows_ahead(c)
            possible = c.droppable and now + left * alone <= c.deadline
            if possible and now + this + (left - 1) * later > c.deadline:
                return False
        return True

    def _rows_ahead(self, c: Candidate) -> int:
        return max(1, c.rows_needed) if self._anytime else c.rows_left

    def _with_jobs(
        self,
        now: float,
        rows: list[Candidate],
        wanted: list[Candidate],
        jobs: list[Candidate],
        live: list[Candidate],
        cost: StepCost,
    ) -> list[Candidate]:
        """Adds job rows that delay no live row beyond its slack."""
        jobs = sorted(jobs, key=lambda c: (c.arrival, c.order))
        left = slack(now, live, cost.row_seconds(min(self._max_rows, len(live) or 1)), whole=True)
        if len(rows) < len(wanted):
            return rows
        for c in jobs:
            more = [*rows, c]
            if len(more) > self._max_rows or cost.predict(len(more)) > left:
                break
            if rows and not (pays(len(rows), cost) and self._safe(now, more, cost)):
                break
            rows = more
        return rows


def pays(rows: int, cost: StepCost) -> bool:
    """Whether one more row raises rows per second by more than `GAIN`."""
    return (rows + 1) / cost.median(rows + 1) > GAIN * rows / cost.median(rows)


def slack(now: float, live: Sequence[Candidate], row: float, *, whole: bool) -> float:
    """Seconds that could be spent on something else now without making any live chunk late.

    Looks at each stream's chunk and the ones after it, at `row` seconds a row; `whole` counts the
    planned steps, otherwise only what a picture needs. Chunks without a clock are counted as work.
    """
    due = sorted(chain.from_iterable(_work(now, c, whole) for c in live))
    left, work = float("inf"), 0.0
    for deadline, rows in due:
        work += rows * row
        left = min(left, deadline - now - work)
    return left


def _work(now: float, c: Candidate, whole: bool) -> list[tuple[float, int]]:
    """(deadline, rows) of a stream's chunk and its next ones. A stream that has no clock yet asks
    for its first chunk soon, however late it is, so that it does not cost others their quality."""
    first = c.rows_left if whole else c.rows_needed
    later = c.chunk_rows if whole else 2
    due = c.deadline if c.droppable else max(c.deadline, now + START_SECONDS)
    chunks = [(due, first)]
    return chunks + [(due + i * c.period, later) for i in range(1, HORIZON_CHUNKS + 1)]
