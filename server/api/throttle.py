"""The rate of one channel's controls: nothing is lost, what comes too fast is put together.

What it is not: the limit against floods of messages (onbeat.webrtc.control).
"""

import asyncio
import time
from collections.abc import Callable

from onbeat.server.api.steering import Control, merged
from onbeat.webrtc.control import TokenBucket

CONTROLS_PER_SECOND, CONTROLS_AT_ONCE = 10.0, 20.0
Ids = list[str | int]


class Throttle:
    """One channel's controls: so many a second; those over it wait as one, the last value wins."""

    def __init__(self) -> None:
        self._bucket = TokenBucket(CONTROLS_PER_SECOND, CONTROLS_AT_ONCE)
        self._held: Control | None = None
        self._ids: Ids = []
        self._timer: asyncio.TimerHandle | None = None

    def take(self, control: Control, send: Callable[[Control, Ids], None]) -> bool:
        """Sends it, or keeps it for later and says False."""
        if self._held is None and self._bucket.take(time.monotonic()):
            send(control, ids_of(control))
            return True
        self._held = control if self._held is None else merged(self._held, control)
        self._ids += ids_of(control)
        if self._timer is None:
            self._wait(send)
        return False

    def _wait(self, send: Callable[[Control, Ids], None]) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(1 / CONTROLS_PER_SECOND, self._flush, send)

    def _flush(self, send: Callable[[Control, Ids], None]) -> None:
        self._timer = None
        if self._held is None:
            return
        if not self._bucket.take(time.monotonic()):
            self._wait(send)
            return
        held, ids, self._held, self._ids = self._held, self._ids, None, []
        send(held, ids)


def ids_of(control: Control) -> Ids:
    return [] if control.id is None else [control.id]
