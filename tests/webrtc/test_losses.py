"""Losses measured over more than a handful of packets."""

from onbeat.webrtc.losses import LossMeter


def test_a_report_about_two_packets_says_nothing() -> None:
    meter = LossMeter()
    assert meter.hear(1_000, 3, 10.0) is None
    assert meter.hear(1_002, 4, 12.0) is None
    assert meter.hear(1_100, 4, 12.1) == 0.01 == meter.share


def test_a_second_is_awaited_and_the_next_measurement_begins_there() -> None:
    meter = LossMeter()
    meter.hear(0, 0, 0.0)
    assert meter.hear(90, 9, 0.9) is None
    assert meter.hear(100, 10, 1.0) == 0.1
    assert meter.hear(200, 60, 2.0) == 0.5


def test_the_sequence_wraps_and_late_packets_are_no_negative_losses() -> None:
    meter = LossMeter()
    meter.hear(2**32 - 50, 5, 0.0)
    assert meter.hear(50, 3, 1.0) == 0.0


def test_more_lost_than_expected_is_all() -> None:
    meter = LossMeter()
    meter.hear(0, 0, 0.0)
    assert meter.hear(20, 25, 1.0) == 1.0
