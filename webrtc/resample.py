"""A publisher's clock laid on ours, and its pictures thinned evenly in its own time.

Pure numbers: no picture is touched. What it is not: the choice of a chunk's pictures, which is made
when the chunk begins, or any queue.
"""

import math

DRIFT = 0.001
"""Seconds a second by which the shortest way seen so far is forgotten: more than two clocks drift
apart, less than a network's delay moves."""


class MediaClock:
    """When a picture was taken, in our monotonic seconds: its media time, plus what the quickest
    one so far took from there to here. So a late packet does not look like a late picture."""

    def __init__(self) -> None:
        self._offset = math.inf
        self._heard_at = -math.inf

    def taken_at(self, media_time: float, arrived_at: float) -> float:
        """Never after `arrived_at`."""
        since = max(0.0, arrived_at - self._heard_at)
        self._heard_at = max(self._heard_at, arrived_at)
        worn = self._offset + (DRIFT * since if math.isfinite(since) else 0.0)
        self._offset = min(worn, arrived_at - media_time)
        return media_time + self._offset


class Thinner:
    """Lets at most one picture pass in each equal part of media time: uniform, whatever comes."""

    def __init__(self, rate: float) -> None:
        """`rate`: pictures a second at most."""
        self._rate = rate
        self._last: int | None = None

    def passes(self, media_time: float) -> bool:
        part = math.floor(media_time * self._rate + 1e-6)
        new = self._last is None or part > self._last
        if new:
            self._last = part
        return new
