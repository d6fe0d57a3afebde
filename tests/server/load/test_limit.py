"""The share of the best possible, interference and agreement, on runs with known answers."""

from typing import Any

import pytest

from onbeat.server.engine.simulate.workload import Session, StreamClass
from onbeat.server.load.figures import figures
from onbeat.server.load.limit import bound_fps, windows_of
from onbeat.server.load.report import html
from onbeat.server.load.run import Load, Outcome
from onbeat.server.load.scrape import Scrape
from onbeat.server.load.seen import Arrival, Seen

MODEL: dict[str, Any] = {"id": "toybox", "fps": 20, "chunk_frames": 4, "default_steps": 2}
SECONDS = 10.0


def viewer(fps: float, seconds: float = SECONDS) -> Seen:
    """From before the measured part to its end, `fps` frames a second."""
    frames = [Arrival(n / fps, n / fps) for n in range(int(fps * (seconds + 1)))]
    return Seen(asked=-1.0, accepted=-0.9, ended=seconds, frames=frames)


def told(*, frames: int, late_chunks: int = 0, chunks: int = 100) -> Scrape:
    interval = SECONDS / max(1, frames)
    lines = [
        f"onbeat_frames_sent_total {frames}",
        f"onbeat_frames_due_total {frames}",
        f"onbeat_frames_on_time_total {frames}",
        f'onbeat_chunks_total{{outcome="on_time"}} {chunks - late_chunks}',
        f'onbeat_chunks_total{{outcome="late"}} {late_chunks}',
        f"onbeat_frame_interval_seconds_count {frames}",
        f"onbeat_frame_interval_seconds_sum {frames * interval}",
    ]
    return Scrape.of("\n".join(lines) + "\n")


def outcome(row_seconds: dict[int, float], grown: Scrape, *seen: Seen) -> Outcome:
    kind = StreamClass(steps=2)
    sessions = [
        Session(name=f"s{n}", start=0.0, seconds=SECONDS, kind=kind) for n in range(len(seen))
    ]
    return Outcome(
        load=Load(seconds=SECONDS),
        start=0.0,
        end=SECONDS,
        grown=grown,
        model=MODEL,
        sessions=sessions,
        row_seconds=row_seconds,
        seen=list(seen),
    )


def test_a_quick_device_could_have_made_all_that_was_asked_for() -> None:
    run = outcome({1: 0.001}, told(frames=200), viewer(20.0))
    windows = list(windows_of(run))
    assert len(windows) == 50 and all(w.steps == 2 and 0 <= w.due < SECONDS for w in windows)
    assert bound_fps(run) == pytest.approx(20.0)
    found = figures(run)
    assert found["goodput_ratio"] == pytest.approx(1.0) and found["goodput_bound_fps"] == 20.0


def test_a_slow_device_is_judged_by_what_it_can_do() -> None:
    """One row takes 50 ms and two take as long as two: 20 rows a second are less than 7 chunks,
    where two viewers ask for 10."""
    run = outcome({1: 0.05, 2: 0.1}, told(frames=200), viewer(20.0), viewer(20.0))
    bound = bound_fps(run)
    assert bound is not None and 24.0 < bound < 34.0
    assert figures(run)["goodput_ratio"] == pytest.approx(20.0 / bound, abs=1e-3)


def test_who_was_refused_counts_as_wanted() -> None:
    refused = Seen(asked=0.0, refused="capacity")
    run = outcome({1: 0.001}, told(frames=200), viewer(20.0), refused)
    bound = bound_fps(run)
    assert bound is not None and bound > 38.0
    assert figures(run)["goodput_ratio"] == pytest.approx(20.0 / bound, abs=1e-3)


def test_nothing_is_claimed_of_a_server_that_does_not_tell() -> None:
    run = outcome({}, told(frames=200), viewer(20.0))
    assert bound_fps(run) is None and figures(run)["goodput_ratio"] is None


def test_interference_is_what_more_is_missed_with_jobs() -> None:
    alone = outcome({1: 0.001}, told(frames=200, late_chunks=2), viewer(20.0))
    beside = outcome({1: 0.001}, told(frames=180, late_chunks=5), viewer(20.0))
    found = figures(beside, alone)
    assert found["interference"] == pytest.approx(0.03)
    assert found["deadline_miss_rate_without_jobs"] == 0.02
    assert found["goodput_fps_without_jobs"] == 20.0 and found["goodput_fps"] == 18.0
    text = html(beside, found, alone)
    assert "0.03" in text and "with jobs than without" in text
    assert figures(beside)["interference"] is None


def test_viewers_and_server_are_compared() -> None:
    shares = figures(outcome({1: 0.001}, told(frames=200), viewer(20.0)))["seen_over_told"]
    assert isinstance(shares, dict)
    assert shares == pytest.approx({"fps": 1.0, "frame_interval": 1.0, "on_time": 1.0}, abs=0.01)
    less = figures(outcome({1: 0.001}, told(frames=400), viewer(20.0)))["seen_over_told"]
    assert isinstance(less, dict) and less["fps"] == pytest.approx(0.5, abs=0.01)


def test_nothing_to_compare_is_no_agreement() -> None:
    empty = figures(outcome({1: 0.001}, told(frames=0), Seen(asked=0.0, refused="capacity")))
    assert empty["seen_over_told"] == {}
