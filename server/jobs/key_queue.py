"""The jobs of one key that wait, in memory, next first, with what decides between keys.

What it is not: how far the turns stand (queueing.py), or safe between threads (standing.py).
"""

from bisect import bisect_left, insort
from itertools import accumulate


class KeyQueue:
    """Entries are (-priority, number, frames)."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, float]] = []
        self._tags: list[tuple[float, int]] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, number: int, priority: int, frames: float) -> None:
        """Idempotent."""
        if self.rank(number, priority) is None:
            insort(self._entries, (-priority, number, frames))
            self._tags = None

    def remove(self, number: int, priority: int) -> None:
        """Idempotent."""
        at = self.rank(number, priority)
        if at is not None:
            del self._entries[at]
            self._tags = None

    def rank(self, number: int, priority: int) -> int | None:
        """How many go before a job; None if it does not wait."""
        at = bisect_left(self._entries, (-priority, number))
        found = at < len(self._entries) and self._entries[at][1] == number
        return at if found else None

    @property
    def tags(self) -> list[tuple[float, int]]:
        """Of each, rising: frames of those before it, and the lowest number from it on."""
        if self._tags is None:
            before = accumulate((entry[2] for entry in self._entries[:-1]), initial=0.0)
            oldest = list(accumulate((entry[1] for entry in reversed(self._entries)), min))
            self._tags = list(zip(before, reversed(oldest), strict=True))
        return self._tags
