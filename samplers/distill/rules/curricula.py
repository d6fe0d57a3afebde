"""Curricula of consistency training: numbers of levels, decays and gaps as functions of the step.

Pure scalars. `step` counts from 0 to `steps`.
"""

import math


def ct_levels(step: int, steps: int, first: int = 2, last: int = 150) -> int:
    """N(k) = ceil(sqrt(k / K ((s1 + 1)^2 - s0^2) + s0^2) - 1) + 1.

    Source: Song et al., Consistency Models (2023), appendix C.
    """
    grown = step / steps * ((last + 1) ** 2 - first**2) + first**2
    return math.ceil(math.sqrt(grown) - 1) + 1


def ct_decay(levels: int, first: int = 2, start: float = 0.95) -> float:
    """mu(k) = exp(s0 ln mu0 / N(k)): the average's decay while there are `levels` levels.

    Source: Song et al., Consistency Models (2023), appendix C.
    """
    return math.exp(first * math.log(start) / levels)


def ict_levels(step: int, steps: int, first: int = 10, last: int = 1280) -> int:
    """N(k) = min(s0 2^floor(k / K'), s1) + 1 with K' = floor(K / (log2(s1 / s0) + 1)).

    Source: Song and Dhariwal, Improved Techniques (2023), section 3.4.
    """
    stage = max(int(steps / (math.floor(math.log2(last / first)) + 1)), 1)
    return int(min(first * 2 ** (step // stage), last)) + 1


def ect_stage(step: int, every: int, most: int) -> int:
    """The stage of easy consistency tuning: one more every `every` steps, up to `most`."""
    return min(step // every, most)


def ramp(step: int, over: int) -> float:
    """From 0 to 1 over `over` steps: the warm-up r of a continuous-time tangent.

    Source: Lu and Song, sCM (2024), section 4.2.
    """
    return min(step / over, 1.0) if over > 0 else 1.0
