"""Predicted against real seconds of the last forwards, for each batch size of a cost table.

What it is not: the prediction (cost.py), which learns from the same forwards.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

import msgspec

RECENT = 256
"""Forwards of a size that percentiles are taken of."""


class BucketCost(msgspec.Struct, frozen=True, kw_only=True):
    """Batches of about `rows` rows, the recent ones of `count` in all. Milliseconds.

    `over_p99`: the share that took longer than the 99th percentile that was predicted for it;
    a perfect prediction has 0.01.
    """

    kind: str
    rows: int
    count: int
    p50_ms: float
    p99_ms: float
    predicted_p50_ms: float
    predicted_p99_ms: float
    over_p99: float

    @property
    def p99_error(self) -> float:
        """How far the real 99th percentile lies above the predicted one, as a share of it."""
        return self.p99_ms / self.predicted_p99_ms - 1.0

    def plain(self) -> dict[str, int | float | str]:
        """For JSON, with the error."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        values["p99_error"] = self.p99_error
        return {n: round(v, 4) if isinstance(v, float) else v for n, v in values.items()}


class Tracker:
    """A row count belongs to the smallest of `sizes` that is not below it, or to the last."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = list(sizes)
        self._counts = [0] * len(self._sizes)
        self._recent: list[deque[tuple[float, float, float]]] = [
            deque(maxlen=RECENT) for _ in self._sizes
        ]

    def add(self, rows: int, seconds: float, median: float, p99: float) -> None:
        """One forward, and what was predicted for it before."""
        at = min(bisect_left(self._sizes, rows), len(self._sizes) - 1)
        self._counts[at] += 1
        self._recent[at].append((seconds, median, p99))

    def report(self, kind: str) -> list[BucketCost]:
        """Of sizes that have run."""
        return [self._bucket(kind, at) for at, count in enumerate(self._counts) if count]

    def _bucket(self, kind: str, at: int) -> BucketCost:
        recent = list(self._recent[at])
        real = sorted(seconds for seconds, _, _ in recent)
        n = len(real)
        return BucketCost(
            kind=kind,
            rows=self._sizes[at],
            count=self._counts[at],
            p50_ms=1e3 * real[n // 2],
            p99_ms=1e3 * real[min(n - 1, int(0.99 * n))],
            predicted_p50_ms=1e3 * sum(median for _, median, _ in recent) / n,
            predicted_p99_ms=1e3 * sum(p99 for _, _, p99 in recent) / n,
            over_p99=sum(seconds > p99 for seconds, _, p99 in recent) / n,
        )
