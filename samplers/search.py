"""Finding good intermediate times of a few-step schedule by ternary search on a measured cost.

The cost is whatever the caller measures (a distance of distributions, a reward with a minus sign);
it is taken to fall and then rise along the time. Nothing here samples or knows a model.
Source: Song et al., Consistency Models (2023), section 3 and appendix C (greedy ternary search).
"""

from collections.abc import Callable


def ternary_search(
    cost: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """The time between `low` and `high` of least cost, to within `tolerance`.

    Each round drops a third of the interval for two evaluations of `cost`.
    Raises ValueError for an empty interval or a tolerance that is not above 0.
    """
    if not low < high:
        raise ValueError(f"low is {low}; allowed: below high, {high}")
    if not tolerance > 0.0:
        raise ValueError(f"tolerance is {tolerance}; allowed: above 0")
    while high - low > tolerance:
        third = (high - low) / 3.0
        if cost(low + third) < cost(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2.0


def search_times(
    cost: Callable[[tuple[float, ...]], float],
    first: float,
    clean: float,
    steps: int,
    tolerance: float,
) -> tuple[float, ...]:
    """A schedule of `steps` evaluations from `first` to `clean`, one time found after the other:
    each new one lies below those before it, which stay where they are.

    cost: of a whole schedule, as `Sampler.times`. Raises ValueError as `ternary_search` does.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}; allowed: 1 or more")
    times: tuple[float, ...] = (first,)
    for _ in range(steps - 1):
        found = ternary_search(_cost_of(cost, times, clean), clean, times[-1], tolerance)
        times = (*times, found)
    return (*times, clean)


def _cost_of(
    cost: Callable[[tuple[float, ...]], float], known: tuple[float, ...], clean: float
) -> Callable[[float], float]:
    return lambda t: cost((*known, t, clean))
