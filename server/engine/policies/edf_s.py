"""EDF-S: earliest deadline first, in batches that keep the most chunks on time, steps optional.

Each tick, in this order:
1. drop chunks that cannot be on time even alone with one step;
2. end chunks early whose next step does not fit. Commits, prefills and first steps are what a
   picture needs; a further step runs only if all needed work of all streams then still fits;
3. choose the batch size: the smallest one that gets rows done at the best rate, within 2 %; if some
   chunk would be late at that size, the size at which the fewest are late (too small a batch makes
   everybody late, too large a one the most urgent);
4. take that many rows by deadline, leaving out those that would be late in such a batch;
5. add job rows where they pay, or give jobs a whole step that no planned live step will miss.
"""

from collections.abc import Sequence
from itertools import chain

from onbeat.server.engine.cost import GAIN, best_rows, sizes_to
from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, next_release, ready

HORIZON_CHUNKS = 2
"""How many chunks of each stream are looked at beyond the one under way."""
START_SECONDS = 0.25
"""Within this a late first chunk is expected when work is counted."""

STEP_RESERVE, JOB_RESERVE = 0.4, 0.2
"""Share of a chunk's time from release to deadline that stays free, for slow forwards, before
further steps or jobs run."""

TURNS = 7

Demand = tuple[float, float, int]
"""(deadline, release, rows) of one chunk, live."""


class EdfS:
    """`anytime`: whether chunks may end before their planned steps."""

    def __init__(self, *, max_rows: int, anytime: bool = True) -> None:
        self._max_rows = max_rows
        self._anytime = anytime

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        live = [c for c in candidates if c.kind == "live"]
        drops = {c.stream for c in live if c.arrival <= now and self._hopeless(now, c, cost)}
        live = [c for c in live if c.stream not in drops]
        wanted = sorted(ready(now, live), key=_urgency)
        finish = self._early(now, wanted, live, cost) if self._anytime else set()
        wanted = [c for c in wanted if c.stream not in finish]
        rows = self._batch(now, wanted, live, cost)
        jobs = ready(now, [c for c in candidates if c.kind == "job"])
        if jobs and len(rows) == len(wanted):
            rows = self._with_jobs(now, rows, jobs, live, cost)
        return Plan(
            rows=tuple(c.stream for c in rows),
            finish=tuple(sorted(finish)),
            drops=tuple(sorted(drops)),
            wake_at=next_release(now, candidates),
        )

    def _needed(self, c: Candidate) -> int:
        return c.rows_needed if self._anytime else c.rows_left

    def _late(self, now: float, c: Candidate, row_seconds: float) -> bool:
        """Whether the chunk misses its deadline if each of its rows takes `row_seconds`."""
        rows = self._needed(c)
        return c.droppable and rows > 0 and max(now, c.release) + rows * row_seconds > c.deadline

    def _hopeless(self, now: float, c: Candidate, cost: StepCost) -> bool:
        return self._late(now, c, cost.median(1))

    def _early(
        self, now: float, wanted: list[Candidate], live: list[Candidate], cost: StepCost
    ) -> set[str]:
        """Chunks that should end now: their next step does not fit, for them or for the others."""
        optional = [c for c in wanted if c.optional]
        if not optional:
            return set()
        alone = cost.predict(1)
        row = cost.row_seconds(min(self._max_rows, len(live)))
        left = slack(now, demand(now, live, whole=False), row) - (alone - row)
        left -= STEP_RESERVE * window(live)
        early = set()
        for c in optional:
            if (c.droppable and now + alone > c.deadline) or left < row:
                early.add(c.stream)
            else:
                left -= row
        return early

    def _batch(
        self, now: float, wanted: list[Candidate], live: list[Candidate], cost: StepCost
    ) -> list[Candidate]:
        if not wanted:
            return []
        size = self._size(now, min(len(wanted), self._max_rows), live, cost)
        step = cost.median(size)
        rows = [c for c in wanted if not self._late(now, c, step)]
        return (rows or wanted)[:size]

    def _size(self, now: float, most: int, live: list[Candidate], cost: StepCost) -> int:
        knee = best_rows(cost, most)
        work = demand(now, live, whole=not self._anytime)
        if on_time(now, work, knee, cost) == len(work):
            return knee
        return max(
            sizes_to(most),
            key=lambda size: (on_time(now, work, size, cost), size / cost.median(size)),
        )

    def _with_jobs(
        self,
        now: float,
        rows: list[Candidate],
        jobs: list[Candidate],
        live: list[Candidate],
        cost: StepCost,
    ) -> list[Candidate]:
        """Adds job rows that take no planned live row beyond its deadline."""
        row = cost.row_seconds(min(self._max_rows, max(1, len(live))))
        left = slack(now, demand(now, live, whole=True), row)
        left -= JOB_RESERVE * window(live)
        for c in sorted(jobs, key=lambda c: (c.arrival, c.order)):
            size = len(rows) + 1
            extra = cost.predict(size) - (len(rows) and cost.median(len(rows)))
            fits = size <= self._max_rows and extra <= left
            if not fits or (rows and not pays(len(rows), cost)):
                break
            rows = [*rows, c]
            left -= extra
        return rows


def _urgency(c: Candidate) -> tuple[float, int, int]:
    """By deadline; streams with the same one take turns, so that none always loses its steps."""
    return c.deadline, (c.order + c.chunk) % TURNS, c.order


def pays(rows: int, cost: StepCost) -> bool:
    """Whether one more row raises rows per second by more than `GAIN`."""
    return (rows + 1) / cost.median(rows + 1) > GAIN * rows / cost.median(rows)


def demand(now: float, live: Sequence[Candidate], *, whole: bool) -> list[Demand]:
    """The work of each stream's chunk and its next ones, by deadline; `whole` counts the planned
    steps, otherwise only what a picture needs."""
    return sorted(chain.from_iterable(_chunks(now, c, whole) for c in live))


def _chunks(now: float, c: Candidate, whole: bool) -> list[Demand]:
    """A stream that has no clock yet asks for its first chunk soon, however late it is, so that it
    does not cost others their quality."""
    first, later = (c.rows_left, c.chunk_rows) if whole else (c.rows_needed, 2)
    due = c.deadline if c.droppable else max(c.deadline, now + START_SECONDS)
    after = ((due + i * c.period, c.arrival + i * c.period, later) for i in _NEXT)
    return [(due, c.release, first), *after]


_NEXT = range(1, HORIZON_CHUNKS + 1)


def slack(now: float, work: Sequence[Demand], row: float) -> float:
    """Seconds free for something else now with no chunk late, at `row` seconds a row."""
    left, rows = float("inf"), 0
    for deadline, _, count in work:
        rows += count
        left = min(left, deadline - now - rows * row)
    return left


def window(live: Sequence[Candidate]) -> float:
    """The shortest time that a chunk has from its release to its deadline."""
    return min((c.deadline - c.arrival for c in live if c.droppable), default=0.0)


def on_time(now: float, work: Sequence[Demand], size: int, cost: StepCost) -> int:
    """How many chunks are on time if every batch has `size` rows and late chunks are left out."""
    step = cost.predict(size)
    rows, count = 0, 0
    for deadline, release, needed in work:
        batches = max(-(-(rows + needed) // size), needed)
        finish = max(now + batches * step, release + needed * step)
        if finish <= deadline:
            rows += needed
            count += 1
    return count
