"""Who has stopped working: a lease lapses when its heartbeats have stood still for long enough.

Each renewal raises a number in the job's row; whoever watches sees it stand still and measures that
on its own monotonic clock. So no wall clock, of a server or of the database, can end a lease early
or keep it for ever, wherever it steps to. Plain numbers; the rows are the store's.
"""

from collections.abc import Callable, Iterable

Held = tuple[int, int, int]
"""Of a running job: its number, its fence, its beat."""


class LeaseWatch:
    """One watcher's memory. `now` gives seconds that never go back."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds, self._now = seconds, now
        self._since: dict[Held, float] = {}

    def lapsed(self, held: Iterable[Held]) -> set[int]:
        """Numbers of the jobs whose heartbeats stood still for the length of a lease."""
        now = self._now()
        self._since = {each: self._since.get(each, now) for each in held}
        return {each[0] for each, since in self._since.items() if now - since >= self._seconds}
