"""Where forwards run: on the tick's own thread, or on a thread beside it.

A lane takes calls in order and hands back what waits for their results. On the tick's own thread a
call runs when its result is asked for; a thread beside it runs it at once, so that the tick can
plan the next one meanwhile (ahead.py). A large batch may run as two halves on two threads, which
get more out of two cores than one batch whose every operation is spread over them. The decode lane
(decode.py) and copies have threads of their own. Decides nothing.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import torch

T = TypeVar("T")


class Lane(Protocol):
    """Runs calls one after the other, in the order they come."""

    def launch(self, call: Callable[[], T]) -> Callable[[], T]:
        """Starts `call`; the answer waits for it and returns, or raises, what it did."""

    def close(self) -> None:
        """No more calls. Idempotent."""


class InlineLane:
    """No lane of its own: the call is made by whoever waits for it."""

    def launch(self, call: Callable[[], T]) -> Callable[[], T]:
        return call

    def close(self) -> None:
        """Nothing to stop."""


class ThreadLane:
    """One thread; `threads`: what torch may use inside its calls."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(
            1, "compute-lane", initializer=torch.set_num_threads, initargs=(threads,)
        )

    def launch(self, call: Callable[[], T]) -> Callable[[], T]:
        return self._pool.submit(call).result

    def close(self) -> None:
        self._pool.shutdown()


class Pair:
    """Runs two calls beside each other, one of them on the caller's thread. `threads`: what torch
    may use in both together."""

    def __init__(self, threads: int) -> None:
        assert threads >= 2, threads
        self._each, self._all = threads // 2, threads
        self._lane = ThreadLane(self._each)

    def run(self, first: Callable[[], T], second: Callable[[], T]) -> tuple[T, T]:
        """What both return; raises what one raises once both have ended."""
        beside = self._lane.launch(second)
        torch.set_num_threads(self._each)
        try:
            here = first()
        finally:
            torch.set_num_threads(self._all)
            there = beside()
        return here, there

    def close(self) -> None:
        self._lane.close()


def halfway(rows: int, pieces: Sequence[int]) -> int:
    """Where to cut a batch in two: in its middle, or at the nearer end of a piece that lies there.

    `pieces`: row counts of the consecutive commits at the batch's end; the rows of a piece read
    what the rows before them write, and stay together. 0 or `rows`: it is all one piece.
    """
    middle, start = rows // 2, rows - sum(pieces)
    for count in pieces:
        end = start + count
        if start < middle < end:
            return start if middle - start <= end - middle else end
        start = end
    return middle
