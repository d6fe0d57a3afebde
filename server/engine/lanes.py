"""Where forwards run: on the tick's own thread, or on a thread beside it.

A lane takes calls in order and hands back what waits for their results. On the tick's own thread a
call runs when its result is asked for; a thread beside it runs it at once, so that the tick can
plan the next one meanwhile (ahead.py). The decode lane (decode.py) and copies have threads of their
own. Decides nothing.
"""

from collections.abc import Callable
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
