"""A publisher's clock on ours, and pictures thinned evenly."""

import random

import pytest

from onbeat.webrtc.resample import DRIFT, MediaClock, Thinner


def test_late_packets_do_not_look_like_late_pictures() -> None:
    clock, rng = MediaClock(), random.Random(1)
    taken = []
    for i in range(600):
        media = i / 60
        delay = 0.0 if i % 10 == 0 else rng.uniform(0.0, 0.08)
        taken.append(clock.taken_at(media, 1000.0 + media + 0.02 + delay))
    steps = [b - a for a, b in zip(taken[10:], taken[11:], strict=False)]
    assert max(abs(step - 1 / 60) for step in steps) < 0.001


def test_a_picture_is_never_taken_after_it_arrived() -> None:
    clock = MediaClock()
    assert clock.taken_at(5.0, 100.0) == pytest.approx(100.0)
    assert clock.taken_at(5.1, 100.05) <= 100.05


def test_a_clock_that_runs_slow_is_followed() -> None:
    clock = MediaClock()
    for i in range(10_000):
        now = 50.0 + i / 20
        at = clock.taken_at((now - 50.0) * (1 - DRIFT / 4), now)
    assert now - at < 0.002


@pytest.mark.parametrize(("rate", "passed"), [(120, 40), (60, 40), (40, 40), (30, 30), (5, 5)])
def test_thinning_is_even(rate: int, passed: int) -> None:
    thinner = Thinner(40.0)
    times = [i / rate for i in range(10 * rate) if thinner.passes(i / rate)]
    assert len(times) == 10 * passed
    steps = [b - a for a, b in zip(times, times[1:], strict=False)]
    assert max(steps) - min(steps) <= 1 / rate + 1e-6
