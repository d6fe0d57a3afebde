"""The rate of a viewer over simulated links, in simulated time: how it falls and comes back."""

import pytest

from onbeat.webrtc.rate import LinkRate
from tests.webrtc.links import SimulatedLink

NOMINAL = 1_180_000
WIDE = 20e6
BAD_FROM, BAD_TO = 20.0, 30.0


def lossy(share: float, seed: int, slow_start: bool = False) -> SimulatedLink:
    link = SimulatedLink(
        slow_start=slow_start,
        rate=LinkRate(NOMINAL),
        capacity=lambda _: WIDE,
        loss=lambda t: share if BAD_FROM < t <= BAD_TO else 0.0,
        seed=seed,
    )
    link.run(80.0)
    return link


def narrow(bits_per_second: float, seed: int) -> SimulatedLink:
    """Narrow from 20 to 50 s."""
    link = SimulatedLink(
        rate=LinkRate(NOMINAL),
        capacity=lambda t: bits_per_second if 20 < t <= 50 else WIDE,
        loss=lambda _: 0.0,
        seed=seed,
    )
    link.run(120.0)
    return link


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slow_start", [False, True])
def test_one_loss_in_a_hundred_takes_nothing_from_the_rate(seed: int, slow_start: bool) -> None:
    link = lossy(0.01, seed, slow_start)
    assert link.lowest(0.0, 80.0) == NOMINAL


def test_a_receiver_that_begins_low_and_has_met_no_queue_limits_nothing() -> None:
    link = lossy(0.0, 1, slow_start=True)
    assert link.at(12.0) == NOMINAL and link.estimate > NOMINAL


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.05, 0.10, 0.2, 0.5])
def test_the_rate_is_back_fourteen_seconds_after_losses_have_ended(share: float, seed: int) -> None:
    link = lossy(share, seed)
    assert link.at(BAD_TO + 14.0) == NOMINAL
    assert link.lowest(BAD_TO + 14.0, 80.0) == NOMINAL, "and stays"


@pytest.mark.parametrize("seed", range(5))
def test_heavy_loss_brings_the_rate_down(seed: int) -> None:
    link = lossy(0.2, seed)
    assert link.lowest(BAD_FROM, BAD_TO) < 0.6 * NOMINAL


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_a_narrow_link_is_followed_down_and_found_wide_again(share: float) -> None:
    link = narrow(share * NOMINAL, 1)
    assert link.at(24.0) <= 1.05 * share * NOMINAL
    above = [target > 1.05 * share * NOMINAL for when, target in link.history if 24 < when <= 50]
    assert sum(above) < 0.25 * len(above), "tries for more are short and rare"
    assert link.longest_queue < 3.0
    assert link.at(100.0) == NOMINAL


def test_losses_of_a_link_that_stays_narrow_are_not_taken_for_a_passing_trouble() -> None:
    """Its queue is too short for delay to tell: whatever is too much is lost."""
    share = [0.0]
    rate = LinkRate(NOMINAL)
    link = SimulatedLink(rate=rate, capacity=lambda _: WIDE, loss=lambda _: share[0])
    link.run(20.0)
    tries, was_above = 0, True
    for step in range(20 * 120):
        share[0] = max(0.0, 1 - 500_000 / rate.target)
        link.run(20.0 + step * 0.05)
        above = rate.target > 560_000
        tries += above and not was_above
        was_above = above
    assert tries <= 12
    settled = [target for when, target in link.history if when > 60]
    assert sum(target > 560_000 for target in settled) < 0.3 * len(settled)
