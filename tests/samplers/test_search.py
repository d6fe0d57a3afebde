"""Ternary search: finds the least cost with few evaluations, one time after the other."""

import pytest

from onbeat.samplers.search import search_times, ternary_search


def test_finds_the_least_cost() -> None:
    calls: list[float] = []

    def cost(t: float) -> float:
        calls.append(t)
        return abs(t - 0.821)

    assert ternary_search(cost, 0.002, 80.0, 0.01) == pytest.approx(0.821, abs=0.01)
    assert len(calls) <= 2 * 24  # 80 (2/3)^n below 0.01


def test_times_are_found_one_after_the_other() -> None:
    best = (80.0, 20.0, 5.0, 0.0)
    seen: set[int] = set()

    def cost(times: tuple[float, ...]) -> float:
        seen.add(len(times))
        return sum(abs(t - b) for t, b in zip(times[:-1], best, strict=False))

    times = search_times(cost, 80.0, 0.0, 3, 1e-3)
    assert times == pytest.approx(best, abs=2e-3) and seen == {3, 4}
    assert search_times(cost, 80.0, 0.0, 1, 1e-3) == (80.0, 0.0)


def test_a_search_with_an_exact_two_step_optimum() -> None:
    """Variance lost by an under-confident model is least in the middle: a smooth real cost."""
    times = search_times(lambda ts: (ts[1] - 0.5) ** 2 + 0.1, 1.0, 0.0, 2, 1e-4)
    assert times[1] == pytest.approx(0.5, abs=1e-4)


def test_errors() -> None:
    for arguments, message in (((1.0, 1.0, 0.1), "low is 1.0"), ((0.0, 1.0, 0.0), "tolerance")):
        with pytest.raises(ValueError, match=message):
            ternary_search(abs, *arguments)
    with pytest.raises(ValueError, match="steps is 0"):
        search_times(lambda _: 0.0, 1.0, 0.0, 0, 0.1)
