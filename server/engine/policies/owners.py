"""Fairness between owners (API keys): who uses more than an equal share, whose job is next.

What it is not: limits per key (the API), or an order of live chunks, which only deadlines give.
"""

from collections.abc import Iterable, Sequence

from onbeat.server.engine.scheduler import Candidate

EVEN = 1.001
"""A share counts as more than equal beyond this."""


def above_share(live: Iterable[Candidate]) -> set[str]:
    """Owners whose live streams ask for more rows a second than an equal share of all."""
    asked: dict[str, float] = {}
    for c in live:
        asked[c.owner] = asked.get(c.owner, 0.0) + c.chunk_rows / c.period
    if len(asked) < 2:
        return set()
    equal = EVEN * sum(asked.values()) / len(asked)
    return {owner for owner, rate in asked.items() if rate > equal}


class JobTurns:
    """Whose job rows come next: the owner with the fewest rows so far (deficit round robin with a
    quantum of one row, Shreedhar and Varghese 1995). Who comes back starts level with the others:
    time without jobs earns nothing."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}

    def order(self, jobs: Sequence[Candidate]) -> list[Candidate]:
        """The ready jobs in the order in which they should get rows; oldest first in an owner."""
        queues: dict[str, list[Candidate]] = {}
        for c in sorted(jobs, key=lambda c: (c.arrival, c.order)):
            queues.setdefault(c.owner, []).append(c)
        known = [self._rows[owner] for owner in queues if owner in self._rows]
        level = min(known, default=0)
        self._rows = {owner: self._rows.get(owner, level) for owner in queues}
        ranked = [
            (self._rows[owner] + sum(c.width for c in queue[:i]), owner, i, c)
            for owner, queue in queues.items()
            for i, c in enumerate(queue)
        ]
        return [c for *_, c in sorted(ranked, key=lambda entry: entry[:3])]

    def took(self, c: Candidate) -> None:
        """A row of this job runs."""
        self._rows[c.owner] += c.width
