"""The share of packets that a receiver lost, over stretches long enough to mean something.

Browsers report with whatever else they have to say, at times after two packets: one of them lost is
then a half (RFC 3550, 6.4.1, leaves the interval open). What follows from a share is in `rate.py`.
"""

STRETCH = 1.0
"""Seconds of one measurement, at least."""
PACKETS = 20
"""Packets of one, at least."""


class LossMeter:
    """Fed with the totals of each report; `share` is the last measurement, None before one."""

    def __init__(self) -> None:
        self.share: float | None = None
        self._from: tuple[int, int, float] | None = None

    def hear(self, highest: int, lost: int, now: float) -> float | None:
        """The share lost since the last measurement, if this report ends another.

        highest: extended highest sequence number received; lost: packets lost since the beginning.
        """
        if self._from is None:
            self._from = (highest, lost, now)
            return None
        expected = (highest - self._from[0]) % 2**32
        if expected < PACKETS or now - self._from[2] < STRETCH:
            return None
        self.share = min(1.0, max(0, lost - self._from[1]) / expected)
        self._from = (highest, lost, now)
        return self.share
