"""Which chunks can be on time: the work ahead by deadline, its slack, and who gives way.

Equal chunks are counted as one entry, so that streams which share their instants cost little.
Functions of plain numbers. What it is not: a choice of rows (edf_s.py).
"""

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush

from onbeat.server.engine.cost import GAIN, sizes_to
from onbeat.server.engine.scheduler import Candidate, StepCost

HORIZON_CHUNKS = 2
"""How many chunks of each stream are looked at beyond the one under way."""
START_SECONDS = 0.25
"""Within this a late first chunk is expected when work is counted."""
MANY, NEAREST = 1000, 4
SAME = 1.001
"""Rates that differ by less are not told apart."""
NEEDED_LATER = 2
"""Rows that a later chunk needs at the lowest quality: a commit and a step."""

Work = tuple[float, float, int, int, int]
"""(deadline, release, rows, rows that wait for the release, chunks): so many equal chunks. A later
chunk's commit does not wait for its release."""
ALL = 1 << 30
"""More chunks than there are."""
Size = tuple[int, float]
"""Rows of a batch and its median seconds."""


def demand(now: float, live: Iterable[Candidate], *, whole: bool) -> list[Work]:
    """The work of each stream's chunk and its next ones, by deadline; `whole` counts the planned
    steps, otherwise only what a picture needs. A stream that has no clock yet asks for its first
    chunk soon, however late it is, so that it does not cost others their quality."""
    counts: dict[tuple[float, float, int, int], int] = {}
    for c in live:
        due = c.deadline if c.droppable else max(c.deadline, now + START_SECONDS)
        rows = c.rows_left if whole else c.rows_needed
        if rows:
            key = (due, c.release, rows, rows)
            counts[key] = counts.get(key, 0) + 1
        arrival, period, later = c.arrival, c.period, c.chunk_rows if whole else NEEDED_LATER
        for _ in range(HORIZON_CHUNKS):
            due += period
            arrival += period
            key = (due, arrival, later, later - 1)
            counts[key] = counts.get(key, 0) + 1
    return [(*key, counts[key]) for key in sorted(counts)]


def slack(now: float, work: Sequence[Work], row: float) -> float:
    """Seconds free for something else now with no chunk late, at `row` seconds a row."""
    left, rows = float("inf"), 0
    for deadline, _, each, _, count in work:
        rows += each * count
        spare = deadline - rows * row
        if spare < left:
            left = spare
    return left - now


def window(live: Iterable[Candidate]) -> float:
    """The shortest time that a chunk has from its release to its deadline."""
    return min((c.deadline - c.arrival for c in live if c.droppable), default=0.0)


def late(
    now: float, work: Sequence[Work], size: int, step: float, allowed: int, done: int = 0
) -> int:
    """How many chunks are late if every batch has `size` rows and takes `step` seconds, and late
    chunks are left out; stops counting beyond `allowed`. A chunk's rows run one after the other;
    `done` of the most urgent rows have run already."""
    used, missed = -done, 0
    for deadline, release, each, after, count in work:
        if (release if release > now else now) + after * step > deadline:
            missed += count
        else:
            room = (int((deadline - now) / step) * size - used) // each
            if count <= room:
                used += count * each
                continue
            room = max(room, 0)
            used += room * each
            missed += count - room
        if missed > allowed:
            break
    return missed


def useful_sizes(cost: StepCost, most: int) -> list[Size]:
    """Batch sizes of up to `most` rows with their median seconds: those that get rows done faster
    than every smaller one, and `most` itself."""
    useful: list[Size] = []
    best = 0.0
    for size in sizes_to(most):
        seconds = cost.median(size)
        if size > best * seconds or size == most:
            best = max(best, size / seconds)
            useful.append((size, seconds))
    return useful


def fewest_late(
    now: float, work: Sequence[Work], sizes: Sequence[Size], margin: float, before: int
) -> Size:
    """The size at which the fewest chunks are late when forwards take `margin` times their median,
    the fastest of equals.

    `before`: the last answer. It is tried first, so that the others are soon found to be worse; of
    very much work only the sizes next to it are compared, as it changes little from tick to tick.
    """
    order = sorted(sizes, key=lambda s: (abs(s[0] - before), -s[0]))
    if len(work) > MANY:
        order = order[:NEAREST]
    best, least = order[0], ALL
    for size, seconds in order:
        missed = late(now, work, size, margin * seconds, least)
        if missed < least or (missed == least and _better((size, seconds), best)):
            best, least = (size, seconds), missed
    return best


def _better(one: Size, other: Size) -> bool:
    """Faster, or as fast as can be told with fewer rows."""
    gain = one[0] * other[1] / (other[0] * one[1])
    return gain > SAME or (gain * SAME > 1.0 and one[0] < other[0])


def knee(sizes: Sequence[Size], cost: StepCost) -> int:
    """Index of the smallest size with the best rate, within 2 %; of the last one, which takes all
    that is ready, if the few rows left over would cost a batch of their own."""
    size, seconds = max(sizes, key=lambda s: s[0] / s[1])
    at = next(i for i, (n, t) in enumerate(sizes) if GAIN * n * seconds >= size * t)
    (few, part), (most, whole) = sizes[at], sizes[-1]
    if few < most <= 2 * few and GAIN * whole < part + cost.median(most - few):
        return len(sizes) - 1
    return at


def victims(
    now: float,
    live: Iterable[Candidate],
    size: int,
    step: float,
    *,
    needed: bool,
    greedy: Collection[str] = (),
) -> set[str]:
    """The chunks that give way so that the others are on time, in batches of `size` rows.

    Moore and Hodgson (1968): go by deadline; whenever a chunk would be late, one of those so far is
    given up. Theirs is the longest; here first those of owners that use more than their share
    (`greedy`), then chunks not begun, then of the stream with the most (m,k) credit (Hamdaoui and
    Ramanathan 1995), then the longest. A chunk that alone would be late is left to the caller.
    `needed`: count what a picture needs instead of all planned steps.
    """
    out: set[str] = set()
    heap: list[tuple[bool, bool, int, int, int, str]] = []
    rows = 0
    for c in sorted(live, key=_deadline):
        each = c.rows_needed if needed else c.rows_left
        alone = each * step
        if not c.droppable:
            rows += each
            continue
        if not each or max(now, c.release) + alone > c.deadline:
            continue
        rows += each
        key = (c.owner not in greedy, c.steps_done > 0, -c.credit, -each, -c.order, c.stream)
        heappush(heap, key)
        room = int((c.deadline - now) / step) * size
        while rows > room and heap:
            gone = heappop(heap)
            rows += gone[3]
            out.add(gone[5])
    return out


def _deadline(c: Candidate) -> float:
    return c.deadline
