"""Something done again and again by a thread of its own until it is closed.

What it is not: a choice of what to do when it fails; that is the function's.
"""

import threading
from collections.abc import Callable


class Regularly:
    """Calls `work` `seconds` after `start` or its last end, on until `close`; with `at_once`, the
    first time without waiting."""

    def __init__(
        self, name: str, seconds: float, work: Callable[[], object], *, at_once: bool = False
    ) -> None:
        self._seconds, self._work, self._at_once = seconds, work, at_once
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def closing(self) -> bool:
        """Whether long work should come to an end."""
        return self._closing.is_set()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Waits for work under way. Idempotent."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        if self._at_once:
            self._work()
        while not self._closing.wait(self._seconds):
            self._work()
