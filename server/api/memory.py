"""Memory that ended connections leave behind, given back to the system.

A connection is a ring of Python objects (aiortc's) that hold 300 kB outside of Python. The
collector looks for rings once what is new is a quarter of what lives: beside the 150,000 objects of
the imports that takes 60 connections. And glibc keeps what is freed for the next one. What it is
not: the finding of leaks (benchmarks/live/churn.py measures those).
"""

import ctypes
import gc
import sys

EVERY = 10.0
"""Seconds between two givings back, at least."""


def set_aside() -> None:
    """What lives now lives to the end: the collector leaves it out from here on, which makes it
    quick and soon. For a process that is ready to serve, once."""
    gc.collect()
    gc.freeze()


def give_back() -> bool:
    """Collect, where `set_aside` was called, and trim the heaps of all threads: about 1 ms for 20
    MB. False where the C library has no way."""
    if gc.get_freeze_count():
        gc.collect()
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
