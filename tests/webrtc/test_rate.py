"""Keyframe requests merged, bit rate moved rarely."""

from onbeat.webrtc.rate import BitrateControl, KeyframeGate, RateMeter


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


def twice(control: BitrateControl, viewer: str, estimate: int, sent: float, now: float) -> int:
    control.estimate(viewer, estimate, sent, now)
    return control.estimate(viewer, estimate, sent, now)


def test_the_rate_falls_at_once_and_rises_slowly_in_bounded_moves() -> None:
    control = BitrateControl(1_000_000, up_after=6, settle=0)
    assert twice(control, "a", 400_000, 9e5, 0.0) == 400_000
    assert twice(control, "a", 900_000, 4e5, 1.0) == 400_000
    assert twice(control, "a", 900_000, 4e5, 6.0) == 600_000
    assert twice(control, "a", 900_000, 6e5, 7.0) == 600_000
    assert twice(control, "a", 900_000, 6e5, 12.0) == 900_000


def test_a_rise_that_was_too_much_is_tried_again_later() -> None:
    control = BitrateControl(1_000_000, up_after=6, settle=0)
    twice(control, "a", 400_000, 9e5, 0.0)
    assert twice(control, "a", 500_000, 4e5, 6.0) == 600_000
    assert twice(control, "a", 400_000, 6e5, 8.0) == 400_000
    assert twice(control, "a", 500_000, 4e5, 15.0) == 400_000
    assert twice(control, "a", 500_000, 4e5, 20.0) == 600_000


def test_small_moves_are_ignored_and_bounds_kept() -> None:
    control = BitrateControl(1_000_000, settle=0)
    assert twice(control, "a", 800_000, 9e5, 0.0) == 1_000_000
    assert twice(control, "a", 9_000_000, 9e6, 50.0) == 1_000_000
    assert twice(control, "a", 1, 9e5, 51.0) == 150_000


def test_an_estimate_above_what_is_sent_is_no_limit_and_one_below_is_doubted_once() -> None:
    """A still picture needs few bits; the receiver then estimates little, and nothing is wrong."""
    control = BitrateControl(1_000_000, up_after=0, settle=0)
    assert twice(control, "a", 150_000, 1e5, 0.0) == 1_000_000
    assert control.estimate("a", 90_000, 1e5, 1.0) == 1_000_000
    assert control.estimate("a", 90_000, 1e5, 1.3) == 150_000


def test_the_lowest_viewer_counts_until_it_leaves() -> None:
    control = BitrateControl(1_000_000, up_after=6, settle=0)
    twice(control, "a", 2_000_000, 9e5, 0.0)
    assert twice(control, "b", 300_000, 9e5, 0.0) == 300_000
    assert control.forget("b", 10.0) == 450_000


def test_the_first_estimates_of_a_viewer_say_nothing() -> None:
    control = BitrateControl(1_000_000, settle=2.0)
    assert twice(control, "a", 200_000, 9e5, 0.0) == 1_000_000
    assert twice(control, "a", 200_000, 9e5, 1.9) == 1_000_000
    assert twice(control, "a", 200_000, 9e5, 2.0) == 200_000


def test_the_meter_counts_its_window() -> None:
    meter = RateMeter(2.0)
    for tenth in range(30):
        meter.add(1_000, tenth / 10)
    assert meter.rate(2.95) == 10_000 and meter.rate(9.0) == 0
