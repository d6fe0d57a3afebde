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


def test_the_rate_falls_at_once_and_rises_slowly_in_bounded_moves() -> None:
    control = BitrateControl(1_000_000, up_after=6, settle=0)
    assert control.estimate("a", 400_000, 9e5, 0.0) == 400_000
    assert control.estimate("a", 900_000, 9e5, 1.0) == 400_000
    assert control.estimate("a", 900_000, 9e5, 6.0) == 600_000
    assert control.estimate("a", 900_000, 9e5, 7.0) == 600_000
    assert control.estimate("a", 900_000, 9e5, 12.0) == 900_000


def test_small_moves_are_ignored_and_bounds_kept() -> None:
    control = BitrateControl(1_000_000, settle=0)
    assert control.estimate("a", 800_000, 9e5, 0.0) == 1_000_000
    assert control.estimate("a", 9_000_000, 9e6, 50.0) == 1_000_000
    assert control.estimate("a", 1, 9e5, 51.0) == 150_000


def test_an_estimate_well_above_what_is_sent_is_no_limit() -> None:
    """A still picture needs few bits; the receiver then estimates little, and nothing is wrong."""
    control = BitrateControl(1_000_000, up_after=0, settle=0)
    assert control.estimate("a", 150_000, 1e5, 0.0) == 1_000_000
    assert control.estimate("a", 110_000, 1e5, 1.0) == 150_000
    assert control.estimate("a", 240_000, 1.5e5, 2.0) == 225_000


def test_the_lowest_viewer_counts_until_it_leaves() -> None:
    control = BitrateControl(1_000_000, up_after=6, settle=0)
    control.estimate("a", 2_000_000, 9e5, 0.0)
    assert control.estimate("b", 300_000, 9e5, 0.0) == 300_000
    assert control.forget("b", 10.0) == 450_000


def test_the_first_estimates_of_a_viewer_say_nothing() -> None:
    control = BitrateControl(1_000_000, settle=2.0)
    assert control.estimate("a", 200_000, 9e5, 0.0) == 1_000_000
    assert control.estimate("a", 200_000, 9e5, 1.9) == 1_000_000
    assert control.estimate("a", 200_000, 9e5, 2.0) == 200_000


def test_the_meter_counts_the_last_second() -> None:
    meter = RateMeter()
    for tenth in range(30):
        meter.add(1_000, tenth / 10)
    assert meter.rate(2.95) == 10_000 and meter.rate(9.0) == 0
