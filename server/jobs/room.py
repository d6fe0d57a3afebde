"""Whether one more job may wait: of all keys together, and of one key beside the others.

No key may have more jobs waiting than places are left for all (the threshold of Choudhury and
Hahne, IEEE/ACM Transactions on Networking 6(2), 1998, with a factor of 1): one key alone fills half
of the queue, two a third each, and whoever comes next finds as many places as the greediest has. So
no number has to be chosen, and nobody has to know who will come. What it is not: whose job runs
next (queueing.py), or the counting (standing.py).
"""

from dataclasses import dataclass


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
    """`most`: jobs that may wait; `of_a_key`: those of one key, 0 for as many as it leaves places
    to all."""

    most: int
    of_a_key: int = 0

    def check(self, waiting: int, own: int) -> None:
        """`waiting`: jobs that wait, `own`: those of the key that wants to add one.

        Raises QueueFull, ShareFull.
        """
        if waiting >= self.most:
            raise QueueFull(waiting)
        if own >= (self.of_a_key or max(1, self.most - waiting)):
            raise ShareFull(own)
