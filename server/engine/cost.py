"""What a forward of r rows costs: a table measured at start, corrected by what is seen later.

Pure numbers, no tensors and no clock: calibrate.py has the table measured, the engine reports each
step by `observe`. Planning uses `predict` (99th percentile), ordering and admission the median.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence

from onbeat.server.engine.scheduler import StepCost
from onbeat.server.engine.track import Tracker

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)
GAIN = 1.02
"""A bigger batch must get this much more done per second to be preferred."""
LOCAL_RATE = 0.1
GLOBAL_RATE = 0.02
MIN_MARGIN, MAX_MARGIN = 1.05, 2.0
FAR_TOO_HIGH = 4.0
"""So many times what a forward took, a prediction comes from another, busier time."""
PROMISE_RATE, MAX_SLOWNESS = 0.01, 4.0
QUICK = 2.0
"""So many times quicker than calibrated a few rows may be on a device that rests otherwise; what is
beyond it says that the machine was busy when it was calibrated."""
MIN_VISITS = 100
"""Forwards of about a size, before promises trust what was seen of it."""
STALL = 1.3
"""A forward that took longer than so many times its cost counts as this much: most such forwards
met something else, and a lasting change is learnt from the ones that follow."""
RECENT = 256
REFRESH = 16
STALE = 400
"""After so many forwards without a batch of about some size, its cost is only a memory."""
HOPE = 0.95
"""A stale size is believed to be this much better per row than what is known to be cheapest."""


class CostModel:
    """Seconds of one forward by its number of rows, for one lane."""

    def __init__(
        self, seconds: Mapping[int, float], margin: float = 1.3, *, slowed: float = 1.0
    ) -> None:
        """`seconds`: median by rows, at least one entry, all above 0; `margin`: p99 / p50;
        `slowed`: by how much they are longer now than on a quiet machine."""
        assert seconds and all(r >= 1 and t > 0 for r, t in seconds.items()), dict(seconds)
        self._rows = sorted(seconds)
        self._seconds = rising([seconds[r] for r in self._rows])
        self._calibrated = [s / slowed for s in self._seconds]
        self._learnt = list(self._seconds)
        self._visits = [0] * len(self._rows)
        self._slowness = slowed
        self._last = [0] * len(self._rows)
        self._ratios: deque[float] = deque(maxlen=RECENT)
        self._seen = 0
        self.tracked = Tracker(self._rows)
        self.margin = min(max(margin, MIN_MARGIN), MAX_MARGIN)

    def median(self, rows: int) -> float:
        """Expected seconds of a forward; linear between measured sizes and beyond the last."""
        return interpolate(self._rows, self._seconds, rows)

    def predict(self, rows: int) -> float:
        """Seconds that 99 of 100 forwards of `rows` rows stay below."""
        return self.median(rows) * self.margin

    def row_seconds(self, rows: int) -> float:
        """Best median seconds per row of any batch of at most `rows` rows."""
        sizes = [r for r in self._rows if r <= rows] or [1]
        return min(self.median(r) / r for r in {*sizes, max(rows, 1)})

    def promised_row_seconds(self, rows: int) -> float:
        """The same for promises: a size that has run often costs what it took, any other what was
        calibrated, or more if forwards have been slower than that of late, or less if they are far
        quicker. What is quick for a few rows, or only hoped for, promises nothing for many."""
        sizes = [i for i, r in enumerate(self._rows) if r <= max(rows, 1)] or [0]
        return min(self._promised(i) / self._rows[i] for i in sizes)

    def promised_seconds(self, most: int) -> list[float]:
        """By the same rule, seconds of batches of 1, 2, ... `most` rows."""
        table = [self._promised(i) for i in range(len(self._rows))]
        return [interpolate(self._rows, table, rows) for rows in range(1, most + 1)]

    def _promised(self, i: int) -> float:
        if self._visits[i] >= MIN_VISITS:
            return self._learnt[i]
        return self._calibrated[i] * max(self._slowness, min(1.0, QUICK * self._slowness))

    def table(self) -> dict[int, float]:
        """Median seconds by measured rows."""
        return dict(zip(self._rows, self._seconds, strict=True))

    def restart(self, measured: "CostModel") -> None:
        """Forgets everything and goes on from a new measurement."""
        self.__dict__.update(measured.__dict__)

    def observe(self, rows: int, seconds: float) -> None:
        """Learns from one forward: sizes near `rows` at once, all others slowly. A forward in
        less than a quarter of its time says that the table is wrong as a whole: no luck makes it so
        fast. (Half is common: a few rows while the decode lane rests.)"""
        ratio = seconds / self.median(rows)
        self.tracked.add(rows, seconds, self.median(rows), self.predict(rows))
        if ratio * FAR_TOO_HIGH < 1.0:
            self._seconds = [s / 2.0 for s in self._seconds]
            self._calibrated = [s / 2.0 for s in self._calibrated]
            self._learnt = [s / 2.0 for s in self._learnt]
            return
        self._slowness += PROMISE_RATE * (
            self._against(self._calibrated, rows, seconds) - self._slowness
        )
        learnt = self._against(self._learnt, rows, seconds)
        self._ratios.append(ratio)
        clipped = min(max(ratio, 0.5), STALL) - 1.0
        near = bisect_left(self._rows, rows)
        self._seen += 1
        for i in range(len(self._seconds)):
            visited = i in (near, near - 1)
            self._seconds[i] *= 1.0 + (LOCAL_RATE if visited else GLOBAL_RATE) * clipped
            if visited:
                self._last[i] = self._seen
                self._visits[i] += 1
                self._learnt[i] *= 1.0 + PROMISE_RATE * (learnt - 1.0)
        if self._seen % REFRESH == 0:
            self._refresh()

    def _against(self, table: Sequence[float], rows: int, seconds: float) -> float:
        """One forward as a multiple of what a table says, within bounds."""
        return min(seconds / interpolate(self._rows, table, rows), MAX_SLOWNESS)

    def _refresh(self) -> None:
        """The margin follows the recent 99th percentile; bigger batches never cost less."""
        ordered = sorted(self._ratios)
        middle = ordered[len(ordered) // 2]
        tail = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] / middle
        self.margin = min(max(tail, MIN_MARGIN), MAX_MARGIN)
        self._hope()
        self._seconds = rising(self._seconds)

    def _hope(self) -> None:
        """Bigger sizes not run for long are believed cheap enough to be tried, so that one bad
        measurement cannot keep a batch small for ever. Smaller ones are not: a row never gets
        cheaper in a smaller batch, and they would be tried when there is least time for it."""
        fresh = [i for i, last in enumerate(self._last) if self._seen - last <= STALE]
        if not fresh:
            return
        row, best = min((self._seconds[i] / self._rows[i], i) for i in fresh)
        for i in range(best + 1, len(self._rows)):
            if i not in fresh:
                self._seconds[i] = min(self._seconds[i], HOPE * row * self._rows[i])


def best_rows(cost: StepCost, most: int) -> int:
    """The smallest batch of up to `most` rows that gets rows done at the best rate, within 2 %."""
    sizes = sizes_to(most)
    best = max(size / cost.median(size) for size in sizes)
    return next(size for size in sizes if GAIN * size / cost.median(size) >= best)


def sizes_to(most: int) -> list[int]:
    """The batch sizes worth comparing, `most` included."""
    return [*(size for size in SIZES if size < most), most]


def interpolate(sizes: Sequence[int], times: Sequence[float], rows: int) -> float:
    """Time of `rows` rows from a table of rising sizes, linear between them and beyond the last."""
    if len(sizes) == 1:
        return times[0] * rows / sizes[0]
    if rows <= sizes[0]:
        return times[0]
    high = min(bisect_left(sizes, rows), len(sizes) - 1)
    low = high - 1
    share = (rows - sizes[low]) / (sizes[high] - sizes[low])
    return max(times[low] + share * (times[high] - times[low]), 1e-9)


def rising(values: list[float]) -> list[float]:
    """The closest sequence that never falls (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while blocks and blocks[-1][0] > mean:
            before, size = blocks.pop()
            mean = (before * size + mean * count) / (size + count)
            count += size
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]
