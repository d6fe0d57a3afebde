"""Predicted against real times by batch size, and the room that an engine says it has."""

import pytest

from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.track import RECENT, Tracker
from tests.server.engine.drive import Rig


def test_rows_belong_to_the_next_size_and_percentiles_are_of_the_recent_ones() -> None:
    tracker = Tracker([1, 2, 4])
    for i in range(1000):
        tracker.add(3, 0.010 if i % 50 else 0.030, 0.010, 0.020)
    tracker.add(9, 0.5, 0.25, 0.5)
    (bucket,) = tracker.report("step")
    assert (bucket.rows, bucket.count) == (4, 1001)
    assert bucket.p50_ms == 10.0 and bucket.p99_ms == pytest.approx(30.0)
    assert bucket.over_p99 == pytest.approx(5 / RECENT, abs=2 / RECENT)


def test_a_good_prediction_is_seen_to_be_one() -> None:
    cost = CostModel({1: 0.010, 4: 0.020}, margin=1.2)
    for i in range(400):
        cost.observe(4, 0.020 * (1.0 + 0.05 * ((i * 7) % 5 - 2) / 2))
    (bucket,) = cost.tracked.report("step")
    assert bucket.predicted_p50_ms == pytest.approx(bucket.p50_ms, rel=0.05)
    assert bucket.p99_ms <= bucket.predicted_p99_ms


def test_an_engine_reports_both_lanes_and_its_room_once_a_second() -> None:
    rig = Rig(EngineSettings(decode_lane=False, max_streams=8, stats_seconds=0.25))
    rig.run(0.5)
    empty = rig.stats()[-1].capacity_streams
    for i in range(3):
        rig.open(str(i))
    rig.run(2.5)
    last = rig.stats()[-1]
    assert {cost.kind for cost in last.costs} == {"step", "decode"}
    assert all(cost.p99_ms >= cost.p50_ms > 0 for cost in last.costs if cost.kind == "step")
    assert 3 <= last.capacity_streams <= empty == 8
    changes = {id(stats.costs) for stats in rig.stats()}
    assert len(changes) <= 5, "twelve reports in three seconds share their figures"


def test_the_room_is_what_admission_then_takes() -> None:
    rig = Rig(
        EngineSettings(decode_lane=False, max_streams=60), step_cost=lambda n: 0.02 + 0.01 * n
    )
    rig.open("first")
    rig.run(1.5)
    said = rig.stats()[-1].capacity_streams
    for i in range(said + 5):
        rig.open(f"more {i}")
    rig.run(0.05)
    assert len(rig.engine.roster.streams) == said < said + 5
    rig.run(1.5)
    assert rig.stats()[-1].capacity_streams >= said


def test_without_admission_pages_and_settings_are_the_limit() -> None:
    rig = Rig(EngineSettings(decode_lane=False, admission=False, max_streams=50, pages=23))
    rig.run(0.5)
    assert rig.stats()[-1].capacity_streams == 23 // 5
