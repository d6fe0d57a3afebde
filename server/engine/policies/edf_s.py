"""EDF-S: earliest deadline first, in batches that keep the most chunks on time, steps optional.

Each tick, in this order:
1. drop chunks that cannot be on time even alone with one step;
2. end chunks early whose next step does not fit. Commits, prefills and first steps are what a
   picture needs; a further step runs only if all needed work of all streams then still fits;
3. choose the batch size: the smallest one that gets rows done at the best rate, within 2 %; if some
   chunk would be late at that size, the size at which the fewest are late (too small a batch makes
   everybody late, too large a one the most urgent);
4. if some must be late, let victims wait, chosen by owner and (m,k) credit (feasible.py);
5. take that many rows by deadline, leaving out those that would be late in such a batch;
6. add job rows where they cost less than in a batch of their own, or give jobs a whole step that no
   planned live step will miss.
"""

from collections.abc import Sequence

from onbeat.server.engine.cost import GAIN, best_rows
from onbeat.server.engine.policies.feasible import (
    ALL,
    MANY,
    Size,
    Work,
    demand,
    fewest_late,
    knee,
    late,
    slack,
    useful_sizes,
    victims,
    window,
)
from onbeat.server.engine.policies.owners import JobTurns, above_share
from onbeat.server.engine.scheduler import Candidate, Plan, StepCost, next_release

STEP_RESERVE, JOB_RESERVE = 0.4, 0.2
"""Share of a chunk's time from release to deadline that stays free, for slow forwards, before
further steps or jobs run."""

TURNS = 7
PAYERS = 4
"""So many others must be there for each stream that is spared by a smaller batch."""
DEARER = 1.1
"""A row of that smaller batch may cost so many times a row of the chosen one, or more if nobody
is late for it."""
NEAR = 3
"""Batches this much smaller than all that is ready are compared too: one victim may be enough."""


class EdfS:
    """`anytime`: whether chunks may end before their planned steps."""

    def __init__(self, *, max_rows: int, anytime: bool = True) -> None:
        self._max_rows = max_rows
        self._anytime = anytime
        self._jobs = JobTurns()
        self._size_before = max_rows

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        live, jobs, drops = self._sorted_out(now, candidates, cost.median(1))
        wanted = sorted((c for c in live if c.release <= now), key=_urgency)
        finish: set[str] = set()
        rows: list[Candidate] = []
        if wanted:
            needed = demand(now, live, whole=not self._anytime)
            if self._anytime:
                finish = self._early(now, wanted, live, needed, cost)
                wanted = [c for c in wanted if c.stream not in finish]
            rows = self._batch(now, wanted, live, needed, cost)
            over = _over_after(now + cost.predict(sum([c.width for c in rows])), wanted)
            if over and self._anytime:
                finish |= over
                wanted = [c for c in wanted if c.stream not in over]
                rows = [c for c in rows if c.stream not in over]
        if jobs and len(rows) == len(wanted):
            rows = self._with_jobs(now, rows, jobs, live, cost)
        return Plan(
            rows=tuple([c.stream for c in rows]),
            finish=tuple(sorted(finish)),
            drops=tuple(sorted(drops)),
            wake_at=next_release(now, candidates),
        )

    def _sorted_out(
        self, now: float, candidates: Sequence[Candidate], alone: float
    ) -> tuple[list[Candidate], list[Candidate], list[str]]:
        """Live streams, ready jobs, and the streams whose chunk is hopeless: it would be late even
        if its rows ran alone from now on."""
        live: list[Candidate] = []
        jobs: list[Candidate] = []
        drops: list[str] = []
        for c in candidates:
            if c.kind == "job":
                if c.release <= now:
                    jobs.append(c)
            elif c.arrival <= now and self._late(now, c, alone):
                drops.append(c.stream)
            else:
                live.append(c)
        return live, jobs, drops

    def _late(self, now: float, c: Candidate, row_seconds: float) -> bool:
        """Whether the chunk would not be there in time if each of its rows takes `row_seconds`."""
        rows = c.rows_needed if self._anytime else c.rows_left
        start = c.release if c.release > now else now
        return c.droppable and rows > 0 and start + rows * row_seconds > c.deadline + c.grace

    def _early(
        self,
        now: float,
        wanted: list[Candidate],
        live: list[Candidate],
        needed: Sequence[Work],
        cost: StepCost,
    ) -> set[str]:
        """Chunks that should end now: their next step does not fit, for them or for the others.
        Owners that use more than their share are the first to do without."""
        optional = [c for c in wanted if c.optional]
        if not optional:
            return set()
        alone = cost.predict(1)
        row = cost.row_seconds(min(self._max_rows, len(live)))
        left = slack(now, needed, row) - (alone - row) - STEP_RESERVE * window(live)
        early = set()
        if left < row * len(optional):
            greedy = above_share(live)
            optional.sort(key=lambda c: c.owner in greedy)
        for c in optional:
            if (c.droppable and now + alone > c.deadline) or left < row:
                early.add(c.stream)
            else:
                left -= row
        return early

    def _batch(
        self,
        now: float,
        wanted: list[Candidate],
        live: list[Candidate],
        needed: Sequence[Work],
        cost: StepCost,
    ) -> list[Candidate]:
        """The live rows of this tick, most urgent first."""
        if not wanted:
            return []
        sizes = useful_sizes(cost, min(sum([c.width for c in wanted]), self._max_rows))
        size, step, all_fit = self._size(now, sizes, needed, cost, live[0].grace)
        waiting: set[str] = set()
        if not all_fit:
            greedy = above_share(live)
            size, step = self._protected(now, wanted, live, greedy, sizes, needed, (size, step))
            usual = cost.median(size)
            waiting = victims(now, live, size, usual, needed=self._anytime, greedy=greedy)
        rows = [c for c in wanted if c.stream not in waiting and not self._late(now, c, step)]
        return _first(rows or wanted, size)

    def _protected(
        self,
        now: float,
        wanted: list[Candidate],
        live: list[Candidate],
        greedy: set[str],
        sizes: Sequence[Size],
        needed: Sequence[Work],
        chosen: Size,
    ) -> Size:
        """A smaller size, if `chosen` would cost a chunk of a stream that should be spared: one
        that has no miss left, or one of an owner below its share. Else a stream whose chunks always
        come in the middle of a long forward would lose them all. Small batches make fewer rows,
        which enough others must be there to pay for, with credit or of owners above their share,
        and which must not be many.
        """
        spared = [
            c
            for c in wanted
            if c.owner not in greedy and (c.credit <= 0 or greedy) and self._late(now, c, chosen[1])
        ]
        if not spared:
            return chosen
        payers = sum([c.owner in greedy or c.credit > 0 for c in live])
        if payers < PAYERS * len(spared):
            return chosen
        fitting = [s for s in sizes if not any(self._late(now, c, s[1]) for c in spared)]
        return next((s for s in reversed(fitting) if _cheap(now, needed, s, chosen)), chosen)

    def _size(
        self,
        now: float,
        sizes: Sequence[Size],
        needed: Sequence[Work],
        cost: StepCost,
        grace: float,
    ) -> tuple[int, float, bool]:
        """Rows of a batch, its median seconds, and whether all chunks are on time with it: with a
        margin, else as a rule, else within their grace. Only then is it asked which are not."""
        margin = cost.predict(1) / cost.median(1)
        size, step = sizes[knee(sizes, cost)]
        if not late(now, needed, size, step * margin, 0):
            return size, step, True
        tried = sizes if len(needed) <= MANY else sizes[-1:]
        if fits := _largest(now, needed, tried):
            return *fits, True
        if fits := _largest(now, [(w[0] + grace, *w[1:]) for w in needed], tried):
            return *fits, True
        most = sizes[-1][0]
        close = [(n, cost.median(n)) for n in range(max(1, most - NEAR), most)]
        self._size_before, step = fewest_late(
            now, needed, [*sizes, *close], margin, self._size_before
        )
        return self._size_before, step, False

    def _with_jobs(
        self,
        now: float,
        rows: list[Candidate],
        jobs: list[Candidate],
        live: list[Candidate],
        cost: StepCost,
    ) -> list[Candidate]:
        """Adds job rows that take no planned live row beyond its deadline. Beside live rows only as
        many ride as cost less there than in a batch of their own, which has as many as pay."""
        row = cost.row_seconds(min(self._max_rows, max(1, len(live))))
        left = slack(now, demand(now, live, whole=True), row) - JOB_RESERVE * window(live)
        queue = self._jobs.order(jobs)
        wide = min(self._max_rows, sum([c.width for c in jobs]))
        alone, most = cost.row_seconds(wide), self._max_rows if rows else best_rows(cost, wide)
        base = size = sum([c.width for c in rows])
        paid = cost.median(base) if base else 0.0
        chosen = 0
        for i, c in enumerate(queue, 1):
            size += c.width
            if (size > most and chosen + base) or cost.predict(size) - paid > left:
                break
            if not rows or GAIN * (cost.median(size) - paid) <= (size - base) * alone:
                chosen = i
        for c in queue[:chosen]:
            self._jobs.took(c)
        return [*rows, *queue[:chosen]]


def _over_after(end: float, wanted: Sequence[Candidate]) -> set[str]:
    """Chunks with a valid picture whose time is over before a batch that ends then: the picture
    that they have is on time, a better one is not."""
    return {c.stream for c in wanted if c.optional and c.droppable and c.deadline < end}


def _largest(now: float, work: Sequence[Work], sizes: Sequence[Size]) -> Size | None:
    """The largest size at which no chunk is late."""
    return next((s for s in reversed(sizes) if not late(now, work, *s, 0)), None)


def _cheap(now: float, needed: Sequence[Work], one: Size, usual: Size) -> bool:
    """Whether one batch of the size `one` before those of the `usual` size costs little."""
    (n, t), (size, step) = one, usual
    if t * size <= DEARER * step * n:
        return True
    return late(now + t, needed, size, step, ALL, n) <= late(now, needed, size, step, ALL)


def _first(rows: Sequence[Candidate], size: int) -> list[Candidate]:
    """As many of `rows` as fit in a batch of `size`, the first one always."""
    chosen: list[Candidate] = []
    for c in rows:
        size -= c.width
        if size < 0 and chosen:
            break
        chosen.append(c)
    return chosen


def _urgency(c: Candidate) -> tuple[float, int, int]:
    """By deadline; streams with the same one take turns, so that none always loses its steps."""
    return c.deadline, (c.order + c.chunk) % TURNS, c.order
