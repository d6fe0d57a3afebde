"""What a viewer saw: freezes, lags, holes, periods, on instants made up."""

import pytest

from onbeat.server.load.seen import (
    Arrival,
    chunk_periods,
    freezes,
    inside,
    intervals,
    lags,
    missing,
    on_time,
)


def frames(*delays: float, skip: int = -1) -> list[Arrival]:
    """One each 50 ms of media time, each so late."""
    return [
        Arrival(100 + 0.05 * n + delay, 0.05 * n) for n, delay in enumerate(delays) if n != skip
    ]


def test_a_steady_stream_has_nothing_to_tell() -> None:
    steady = frames(*[0.02] * 40)
    assert freezes(steady) == [] and missing(steady, 20) == 0 and on_time(steady) == 40
    assert intervals(steady) == pytest.approx([0.05] * 39)
    assert max(lags(steady)) == pytest.approx(0)
    assert chunk_periods(steady, 4, 20) == pytest.approx([0.2] * 9)


def test_a_gap_is_a_freeze_from_three_intervals_and_150_ms_on() -> None:
    held = [0.02] * 20 + [0.02 + 0.16] + [0.17] * 5
    assert freezes(frames(*held)) == [pytest.approx(0.21)]
    short = [0.02] * 20 + [0.02 + 0.13] + [0.14] * 5
    assert freezes(frames(*short)) == []


def test_what_comes_after_the_buffer_is_late() -> None:
    late = frames(*[0.02] * 30, 0.25, 0.02)
    assert on_time(late) == 31 and on_time(late, within=0.3) == 32
    assert on_time([]) == 0 and lags([]) == []


def test_holes_in_the_time_stamps_are_missing_frames() -> None:
    assert missing(frames(*[0.0] * 10, skip=4), 20) == 1
    assert missing([Arrival(0.0, 0.0), Arrival(1.0, 1.0)], 20) == 19
    assert chunk_periods(frames(*[0.0] * 8, skip=4), 4, 20) == pytest.approx([0.25])


def test_only_what_is_inside_the_measured_part_counts() -> None:
    assert len(inside(frames(*[0.0] * 10), 100.1, 100.2)) == 2
