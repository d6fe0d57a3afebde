"""Work in line for one encoder: one job in a thread at a time, a few waiting, the oldest given up.

Runs on the loop's thread except for the encode itself; knows nothing of what is encoded.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from onbeat.webrtc.encoders import EncoderPool

Job = TypeVar("Job")
Result = TypeVar("Result")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks(Generic[Job, Result]):
    """What a lane calls, all of it on the loop.

    `start(job)` gives the work that is done in a thread, `done(job, result, seconds)` comes after
    it, `dropped(job)` for a job given up or failed.
    """

    start: Callable[[Job], Callable[[], Result]]
    done: Callable[[Job, Result, float], None]
    dropped: Callable[[Job], None]


class Lane(Generic[Job, Result]):
    """`slots` jobs may wait; one more pushes the oldest of them out."""

    def __init__(self, pool: EncoderPool, slots: int, hooks: Hooks[Job, Result]) -> None:
        self._pool, self._slots, self._hooks = pool, slots, hooks
        self._waiting: deque[Job] = deque()
        self._busy = False
        self._closed = False

    def warm(self, work: Callable[[], None]) -> None:
        """Do `work` in a thread before the first job."""
        self._busy = True
        self._pool.run(work).add_done_callback(self._warmed)

    def _warmed(self, done: "asyncio.Future[None]") -> None:
        self._busy = False
        error = None if done.cancelled() else done.exception()
        if error is not None:
            logger.error("opening the encoder failed: %s", error, exc_info=error)
        if not self._closed:
            self._next()

    def offer(self, job: Job) -> None:
        assert not self._closed
        self._waiting.append(job)
        if len(self._waiting) > self._slots and self._busy:
            self._hooks.dropped(self._waiting.popleft())
        self._next()

    def close(self) -> None:
        """Give up what waits; the result of the encode under way is thrown away. Idempotent."""
        self._closed = True
        while self._waiting:
            self._hooks.dropped(self._waiting.popleft())

    def _next(self) -> None:
        if self._busy or not self._waiting:
            return
        job, self._busy = self._waiting.popleft(), True
        work = self._hooks.start(job)
        future = self._pool.run(lambda: _timed(work))
        future.add_done_callback(lambda done: self._finish(job, done))

    def _finish(self, job: Job, done: "asyncio.Future[tuple[Result, float]]") -> None:
        self._busy = False
        if done.cancelled() or self._closed:
            self._hooks.dropped(job)
            return
        error = done.exception()
        if error is not None:
            logger.error("encoding failed: %s", error, exc_info=error)
            self._hooks.dropped(job)
        else:
            self._hooks.done(job, *done.result())
        self._next()


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started
