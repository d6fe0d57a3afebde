"""What the engine counts between two reports. Bounded, so that a silent reader costs nothing."""

from collections import deque
from dataclasses import dataclass, field

LONGEST = 4096


def _recent() -> deque[float]:
    return deque(maxlen=LONGEST)


@dataclass(slots=True, kw_only=True)
class Interval:
    """Of one report interval: seconds of forwards and plans, rows of batches."""

    since: float
    rows: deque[int] = field(default_factory=lambda: deque(maxlen=LONGEST))
    steps: deque[float] = field(default_factory=_recent)
    plans: deque[float] = field(default_factory=_recent)

    def busy(self, now: float) -> float:
        """Share of the interval that the compute lane was at work."""
        return min(1.0, sum(self.steps) / max(now - self.since, 1e-9))
