"""Whether one more job may wait: of all keys together, and of one key beside the others.

A key may have twice as many jobs waiting as there are places left, the last quarter of all places
aside (a threshold that moves, of Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2),
1998); that quarter is for keys of which none waits. So one key alone fills half of the queue, two
three tenths each, and after any number of greedy ones a quarter of all places is left to as many
others. No number has to be chosen, and nobody has to know who will come. What it is not: whose job
runs next (queueing.py), or the counting (standing.py).
"""

from dataclasses import dataclass

KEPT = 4
"""One place of so many is for keys of which no job waits."""
SHARE = 2


class Full(Exception):
    """`waiting` jobs wait, the most allowed."""

    def __init__(self, waiting: int) -> None:
        super().__init__(waiting)
        self.waiting = waiting


class QueueFull(Full):
    """Of all keys together."""


class ShareFull(Full):
    """Of one key, at this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """`most`: jobs that may wait; `of_a_key`: those of one key, 0 for as many as `share` says."""

    most: int
    of_a_key: int = 0

    def check(self, waiting: int, own: int) -> None:
        """`waiting`: jobs that wait, `own`: those of the key that wants to add one.

        Raises QueueFull, ShareFull.
        """
        if waiting >= self.most:
            raise QueueFull(waiting)
        if own >= (self.of_a_key or self.share(waiting)):
            raise ShareFull(own)

    def share(self, waiting: int) -> int:
        """How many of them one key may have."""
        kept = -(-self.most // KEPT)
        return max(1, SHARE * (self.most - waiting - kept))
