"""Times of a few-step chunk: plain float64 tables, from the first level down to the clean one.

Not a scheduler object: there is no current step here, nothing is shifted behind the caller, and
`steps` always counts evaluations of the network.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from onbeat.samplers.paths import Path
from onbeat.samplers.sampler import Sampler

Times = tuple[float, ...]
KARRAS_RHO = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """`times`: steps + 1 noise levels t of x_t = (1 - t) x0 + t z, falling from 1.0 to 0.0."""

    times: Times

    def __post_init__(self) -> None:
        falling = all(t > s for t, s in pairwise(self.times))
        if len(self.times) < 2 or self.times[0] != 1.0 or self.times[-1] != 0.0 or not falling:
            raise ValueError(f"times is {self.times}; allowed: at least two, falling from 1 to 0")

    @property
    def steps(self) -> int:
        return len(self.times) - 1


@lru_cache(maxsize=256)
def rf_schedule(steps: int, shift: float) -> Schedule:
    """A uniform grid of `steps` evaluations, shifted once (see `shifted`)."""
    check_steps(steps)
    return Schedule(times=shifted([1.0 - i / steps for i in range(steps + 1)], shift))


def shifted(times: Sequence[float], shift: float) -> Times:
    """Rectified-flow times moved by t' = shift t / (1 + (shift - 1) t); 0 and 1 stay.

    shift > 1 spends more steps at high noise; 1 changes nothing.
    Source: Esser et al., Scaling Rectified Flow Transformers (2024), section 5.3.2.
    """
    if not shift > 0.0:
        raise ValueError(f"shift is {shift}; allowed: above 0")
    return tuple(shift * t / (1.0 + (shift - 1.0) * t) for t in times)


def karras(position: float, low: float = 0.002, high: float = 80.0) -> float:
    """Sigma at `position` from 0 (`high`) to 1 (`low`). Source: Karras et al. (2022), eq. 5."""
    top, bottom = high ** (1 / KARRAS_RHO), low ** (1 / KARRAS_RHO)
    return float((top + position * (bottom - top)) ** KARRAS_RHO)


def cm_times(steps: int, scales: int = 40, low: float = 0.002, high: float = 80.0) -> Times:
    """Levels 0, scales // steps, .. of a Karras grid, then `low`, which is clean.

    Source: Song et al., Consistency Models (2023), section 5 (a schedule found by search, see
    `onbeat.samplers.search`, is better).
    """
    check_steps(steps, scales - 1)
    stride = scales // steps
    grid = [karras(i * stride / (scales - 1), low, high) for i in range(steps)]
    return (*grid, low)


def lcm_times(steps: int, origin: int = 50, training: int = 1000, strength: float = 1.0) -> Times:
    """Training steps of LCM and TCD: every (training // origin)-th, of which `steps` are taken from
    the noisiest `strength` allows, evenly and rounded down; then -1, which is clean.

    Source: Luo et al., LCM (2023), section 4.3 (skipping-step).
    """
    check_strength(strength)
    usable = int(origin * strength)
    check_steps(steps, usable)
    stride = training // origin
    grid = [(usable - i * usable // steps) * stride - 1.0 for i in range(steps)]
    return (*grid, -1.0)


def trig_times(steps: int, first: float = math.atan(160.0), middle: float | None = 1.1) -> Times:
    """Trigonometric times: first, `middle` if there are two steps, else a uniform grid; then 0.

    Defaults: sigma 80 at sigma_data 0.5 and the middle of Lu and Song, sCM (2024), section 5.
    """
    check_steps(steps)
    if steps == 2 and middle is not None:
        return (first, middle, 0.0)
    return tuple(first * (1.0 - i / steps) for i in range(steps + 1))


def at_strength(sampler: Sampler, strength: float) -> Sampler:
    """The sampler begun part of the way down, for image-to-image and video-to-video.

    All its steps are kept, and spread over the last `strength` of its schedule: the strength is
    continuous, and the last step still ends clean. Between two levels it is linear in time (in
    sigma^(1/7) on `edm`; rounded up on `vp`). 0 < strength <= 1; 1 changes nothing.
    Raises ValueError for another strength, or if two steps on `vp` would fall together.
    """
    check_strength(strength)
    if strength == 1.0:
        return sampler
    n = sampler.steps
    at = [n * (1.0 - strength) + i * strength for i in range(n)]
    return replace(sampler, times=(*(_level(sampler, p) for p in at), sampler.path.clean))


def _level(sampler: Sampler, position: float) -> float:
    """The time at `position` of the schedule, 0 to steps."""
    i = min(int(position), sampler.steps - 1)
    high, low = (_bend(sampler.path, t) for t in sampler.times[i : i + 2])
    between = high + (position - i) * (low - high)
    return (
        float(math.ceil(between)) if sampler.path.kind == "vp" else _unbend(sampler.path, between)
    )


def _bend(path: Path, t: float) -> float:
    return t ** (1 / KARRAS_RHO) if path.kind == "edm" else t


def _unbend(path: Path, u: float) -> float:
    return u**KARRAS_RHO if path.kind == "edm" else u


def check_steps(steps: int, most: int | None = None) -> None:
    """Raises ValueError for a number of evaluations below 1 or above `most`."""
    if steps < 1 or (most is not None and steps > most):
        allowed = "1 or more" if most is None else f"1 to {most}"
        raise ValueError(f"steps is {steps}; allowed: {allowed}")


def check_strength(strength: float) -> None:
    """Raises ValueError for a strength outside (0, 1]."""
    if not 0.0 < strength <= 1.0:
        raise ValueError(f"strength is {strength}; allowed: above 0, up to 1")
