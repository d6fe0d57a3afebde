"""Keyframe requests merged, bit rate moved rarely."""

from onbeat.webrtc.rate import KeyframeGate, LinkRate, RateMeter


def test_requests_are_met_by_one_keyframe_and_the_next_waits() -> None:
    gate = KeyframeGate(0.5)
    assert not gate.take(0.0)
    gate.request()
    gate.request()
    assert gate.take(0.0) and not gate.take(0.05)
    gate.request()
    assert not gate.take(0.45) and gate.take(0.5)
    assert gate.requests == 3


def test_a_keyframe_of_the_encoder_itself_meets_the_requests() -> None:
    gate = KeyframeGate()
    gate.request()
    gate.made(1.0)
    assert not gate.wanted and not gate.take(9.0)


def twice(link: LinkRate, estimate: int, sent: float, now: float) -> int:
    link.estimate(9_000_000, sent, now)
    link.estimate(estimate, sent, now)
    return link.estimate(estimate, sent, now)


def test_the_rate_falls_at_once_and_rises_slowly_in_bounded_moves() -> None:
    link = LinkRate(1_000_000, up_after=6, settle=0)
    assert twice(link, 400_000, 9e5, 0.0) == 400_000
    assert twice(link, 900_000, 4e5, 1.0) == 400_000
    assert twice(link, 900_000, 4e5, 6.0) == 600_000
    assert twice(link, 900_000, 6e5, 7.0) == 600_000
    assert twice(link, 900_000, 6e5, 12.0) == 900_000


def test_a_rise_that_was_too_much_is_tried_again_later() -> None:
    link = LinkRate(1_000_000, up_after=6, settle=0)
    twice(link, 400_000, 9e5, 0.0)
    assert twice(link, 500_000, 4e5, 6.0) == 600_000
    assert twice(link, 400_000, 6e5, 8.0) == 400_000
    assert twice(link, 500_000, 4e5, 15.0) == 400_000
    assert twice(link, 500_000, 4e5, 20.0) == 600_000


def test_small_falls_are_ignored_and_bounds_kept() -> None:
    link = LinkRate(1_000_000, settle=0)
    assert twice(link, 800_000, 9e5, 0.0) == 1_000_000
    assert twice(link, 9_000_000, 9e6, 50.0) == 1_000_000
    assert twice(link, 1, 9e5, 51.0) == 150_000


def test_an_estimate_above_what_is_sent_is_no_limit_and_one_below_is_doubted_once() -> None:
    """A still picture needs few bits; the receiver then estimates little, and nothing is wrong."""
    link = LinkRate(1_000_000, up_after=0, settle=0)
    assert twice(link, 150_000, 1e5, 0.0) == 1_000_000
    assert link.estimate(90_000, 1e5, 1.0) == 1_000_000
    assert link.estimate(90_000, 1e5, 1.3) == 150_000


def test_the_first_estimates_of_a_viewer_say_nothing() -> None:
    link = LinkRate(1_000_000, settle=2.0)
    assert twice(link, 200_000, 9e5, 0.0) == 1_000_000
    assert twice(link, 200_000, 9e5, 1.9) == 1_000_000
    assert twice(link, 200_000, 9e5, 2.0) == 200_000


def test_heavy_loss_lowers_the_rate_light_loss_forbids_to_raise_it() -> None:
    link = LinkRate(1_000_000, up_after=6, settle=0)
    assert link.lost(0.05, 0.0) == 1_000_000
    assert link.lost(0.4, 1.0) == 800_000
    assert link.lost(0.4, 1.5) == 800_000, "one fall a second"
    assert link.lost(0.5, 2.0) == 600_000
    link.lost(0.03, 9.0)
    assert twice(link, 2_000_000, 6e5, 10.0) == 600_000
    link.lost(0.01, 11.0)
    assert twice(link, 2_000_000, 6e5, 12.1) == 900_000


def test_after_a_cut_of_the_line_the_rate_is_soon_what_it_was() -> None:
    link = LinkRate(1_000_000, up_after=6, settle=0)
    for second in range(3):
        link.lost(0.9, 100.0 + second)
    low = link.target
    assert low < 200_000
    risen = [twice(link, 5_000_000, low, 102.0 + second) for second in range(14)]
    assert risen[2] == low, "three seconds without losses"
    assert risen[3] == risen[4] == low * 3 // 2 < risen[5]
    assert risen[13] == 1_000_000


def test_the_meter_counts_its_window() -> None:
    meter = RateMeter(2.0)
    for tenth in range(30):
        meter.add(1_000, tenth / 10)
    assert meter.rate(2.95) == 10_000 and meter.rate(9.0) == 0
