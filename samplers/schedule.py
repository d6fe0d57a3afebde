"""Noise levels of a few-step chunk: plain float64 tables, written out from 1 to exactly 0.

Not a scheduler object: there is no current step here, and nothing is shifted behind the caller.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """`times`: steps + 1 noise levels t of x_t = (1 - t) x0 + t z, falling from 1.0 to 0.0."""

    times: tuple[float, ...]

    def __post_init__(self) -> None:
        falling = all(t > s for t, s in pairwise(self.times))
        if len(self.times) < 2 or self.times[0] != 1.0 or self.times[-1] != 0.0 or not falling:
            raise ValueError(f"times is {self.times}; allowed: at least two, falling from 1 to 0")

    @property
    def steps(self) -> int:
        return len(self.times) - 1


@lru_cache(maxsize=256)
def rf_schedule(steps: int, shift: float) -> Schedule:
    """A uniform grid of `steps` evaluations, shifted once: t' = shift t / (1 + (shift - 1) t).

    shift > 1 spends more steps at high noise; 1 is uniform. `steps` counts model evaluations.
    Source: Esser et al., Scaling Rectified Flow Transformers (2024), section 5.3.2.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}; allowed: 1 or more")
    if not shift > 0.0:
        raise ValueError(f"shift is {shift}; allowed: above 0")
    grid = (1.0 - i / steps for i in range(steps + 1))
    return Schedule(times=tuple(shift * t / (1.0 + (shift - 1.0) * t) for t in grid))
