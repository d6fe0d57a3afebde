"""Windows, percentiles and the meter of a session, on given instants."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from onbeat.server.api.measures import SessionMeter, Window, efficiencies, quantiles, ratio
from onbeat.server.engine.messages import ChunkDropped, EngineStats
from onbeat.webrtc.frames import FrameTimes
from onbeat.webrtc.stats import BroadcastStats
from tests.server.api.fake_engine import FakeEngine
from tests.server.jobs.test_attempt import ready_chunk


def test_percentiles_agree_with_numpy() -> None:
    values = [float(x * 7919 % 1000) for x in range(500)]
    expected = np.percentile(values, (50, 95, 99))
    assert list(quantiles(values, scale=2.0).values()) == pytest.approx(list(2 * expected))
    assert quantiles([3.0]) == {"p50": 3.0, "p95": 3.0, "p99": 3.0}
    assert quantiles([]) == {"p50": None, "p95": None, "p99": None}


def test_a_window_forgets() -> None:
    window = Window(10.0)
    for at in range(20):
        window.add(float(at), 1.0)
    assert window.total(19.0) == 11 and window.total(40.0) == 0


def test_ratios_of_nothing_are_unknown() -> None:
    assert ratio(0, 0) is None and ratio(1, 2) == 0.5


def test_the_sender_decides_what_was_on_time() -> None:
    meter = SessionMeter()
    meter.delivered(ready_chunk("s", 0), 100.0)
    assert meter.on_time_ratio(100.0) == 1.0, "without viewers the engine's word"
    sent = meter.sampled(
        BroadcastStats(frames_due=10, frames_on_time=9, frames_sent=9, frames_dropped={"late": 1}),
        100.5,
    )
    assert (sent.due, sent.on_time, sent.dropped) == (10, 9, {"late": 1})
    assert meter.on_time_ratio(101.0) == 0.9 and meter.dropped_frames == 1
    again = meter.sampled(meter.sender, 101.0)
    assert (again.due, again.sent, again.dropped) == (0, 0, {"late": 0})


def test_what_the_engine_had_in_time_and_did_not_leave_in_time_is_the_encoders() -> None:
    meter = SessionMeter()
    late = msgspec.structs.replace(ready_chunk("s", 0), on_time=False, cause="queue")
    meter.delivered(late, 100.0)
    meter.delivered(ready_chunk("s", 1), 100.2)
    dropped = {"late": late.frames + 2, "skipped": 4}
    due = 4 + 2 * late.frames
    on_time = late.frames - 2
    stats = BroadcastStats(frames_due=due, frames_on_time=on_time, frames_dropped=dropped)
    assert meter.sampled(stats, 100.5).encode_missed == 2
    assert meter.sampled(stats, 101.0).encode_missed == 0
    meter.delivered(late, 101.1)
    assert meter.sampled(stats, 101.5).encode_missed == 0
    again = replace(stats, frames_due=due + late.frames)
    assert meter.sampled(again, 102.0).encode_missed == 0, "they count a sample later"
    assert meter.sampled(replace(again, frames_due=due + 2 * late.frames), 102.5).encode_missed


def test_dropped_chunks_count_once() -> None:
    meter = SessionMeter()
    for cause in ("queue", "paused"):
        event = ChunkDropped(stream_id="s", chunk=1, cause=cause, playout_at=0.0)
        meter.dropped(event, 4, 100.0)
    assert meter.dropped_frames == 4 and meter.on_time_ratio(100.0) == 0.0
    meter.sampled(BroadcastStats(frames_due=4, frames_dropped={"skipped": 4}), 100.5)
    assert meter.dropped_frames == 4, "the sender saw the same gap"


def test_rates_and_stages() -> None:
    meter = SessionMeter()
    assert meter.fps_generated(1.0) is None
    assert meter.stage_medians()["encode"] is None
    for chunk in range(40):
        meter.delivered(ready_chunk("s", chunk), 100 + 0.2 * chunk)
        due = 100.4 + 0.2 * chunk
        sent = FrameTimes(
            chunk=chunk,
            number=0,
            pts=18_000 * chunk,
            due=due,
            taken_at=due,
            encoded_at=due + 0.006,
            sent_at=due + 0.007,
        )
        meter.sampled(BroadcastStats(), 100 + 0.2 * chunk, [sent])
    assert meter.fps_generated(107.8) == pytest.approx(20, abs=1.1)
    assert meter.stage_medians()["encode"] == 6.0
    assert meter.chunk == 39 and len(meter.recent) == 40


@pytest.mark.parametrize(("now", "expected"), [(0.02, [1.0, 2.0]), (0.0, [0.25, 0.5])])
def test_a_batch_is_compared_with_what_one_row_takes_now(now: float, expected: list[float]) -> None:
    """What it took when the engine started stands in for an engine that does not tell."""
    stats = EngineStats(
        at=0.0,
        streams=[],
        pages_used=0,
        pages_total=1,
        slots_used=0,
        slots_total=1,
        busy_ratio=0.0,
        batch_rows=[1, 4],
        step_seconds=[0.02, 0.04],
        plan_seconds=[],
        decode_seconds=[],
        row_seconds=now,
        utilisation=0.0,
    )
    assert efficiencies(stats, FakeEngine().announcement()) == pytest.approx(expected)
    if not now:
        assert efficiencies(stats, None) == []
