"""Memory that ended connections leave with the C library, given back to the system.

A connection takes some 100 kB of small pieces outside of Python (DTLS, codecs), which glibc keeps
for the next one when they are freed; after a rush of clients that is the most of all. What it is
not: the finding of leaks (benchmarks/live/churn.py measures those).
"""

import ctypes
import sys

EVERY = 10.0
"""Seconds between two givings back, at least."""


def give_back() -> bool:
    """Trim the heaps of all threads: about 1 ms for 20 MB. False where the C library has no way."""
    if not sys.platform.startswith("linux"):
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True


class Trimmer:
    """Remembers when connections ended, so that a server at rest trims nothing."""

    def __init__(self) -> None:
        self._connections = 0
        self._ended = False
        self._at = float("-inf")

    def due(self, connections: int, now: float) -> bool:
        """Whether to give back now; `connections`: those there are. Once for each rush."""
        self._ended = self._ended or connections < self._connections
        self._connections = connections
        if not self._ended or now - self._at < EVERY:
            return False
        self._ended, self._at = False, now
        return True
