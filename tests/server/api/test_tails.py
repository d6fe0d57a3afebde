"""Splits of the tail: rows that sum, the stage that is slow, a window of frames."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from onbeat.server.api.frames import ALL_STAGES, SERVER_STAGES, VIEWER_STAGES, FrameRecord
from onbeat.server.api.latency import LatencyWindow
from onbeat.server.api.tails import slowest, split


def record(*, seen: bool = False, **stall: float) -> FrameRecord:
    """Each stage 1 ms, but for those that are given, in seconds."""
    names = ALL_STAGES if seen else SERVER_STAGES
    stages = {name: stall.get(name, 0.001) for name in names}
    server = sum(stages[name] for name in SERVER_STAGES)
    return FrameRecord(
        chunk=0,
        number=0,
        pts=0,
        released_at=50.0,
        sent_at=50.0 + server,
        lateness=0.0,
        interval=None,
        stages=MappingProxyType(stages),
    )


def test_a_row_sums_to_the_latency_of_the_frames_around_its_quantile() -> None:
    records = [record(denoise=0.001 * n) for n in range(200)] + [record(encode=3.0)] * 10
    rows = split(records)
    for row in rows.values():
        assert row is not None
        assert sum(v for k, v in row.items() if k != "total") == pytest.approx(row["total"])
    assert rows["p50"] is not None and rows["p50"]["denoise"] == pytest.approx(104, abs=4)
    assert rows["p99"] is not None and rows["p99"]["encode"] == pytest.approx(3000)
    assert split([]) == {"p50": None, "p95": None, "p99": None}


@pytest.mark.parametrize("stage", [name for name in ALL_STAGES if name != "pace"])
def test_a_stall_in_a_stage_is_that_stages_within_two_seconds(stage: str) -> None:
    window, now = LatencyWindow(), 1000.0
    for tick in range(20):  # ten seconds in which all is well
        window.sent([record(denoise=0.06)] * 10, now + 0.5 * tick)
        window.seen([record(denoise=0.06, seen=True)] * 10, now + 0.5 * tick)
    assert window.view(now + 9.5, late=False)["slowest"] == "denoise"
    stalled = record(seen=stage in VIEWER_STAGES, **({"denoise": 0.06} | {stage: 0.3}))
    put = window.seen if stage in VIEWER_STAGES else window.sent
    put([stalled] * 10, now + 10.0)
    put([replace(stalled, chunk=1)] * 10, now + 10.5)
    view = window.view(now + 10.5, late=False)
    assert view["slowest"] == stage and view["slowest_ms"] == pytest.approx(300, rel=0.1)


def test_a_stall_that_the_reserve_makes_up_for_is_named(now: float = 1000.0) -> None:
    """The wait for the playout instant gives what the stall takes: no frame's total changes, and
    one chunk in ten is enough."""
    window = LatencyWindow()
    window.sent([record(denoise=0.06, pace=0.4)] * 36, now)
    window.sent([record(denoise=0.06, decode=0.25, pace=0.15)] * 4, now)
    view = window.view(now, late=False)
    assert view["slowest"] == "decode" and view["slowest_ms"] > 125


def test_waiting_for_the_playout_instant_is_meant() -> None:
    window = LatencyWindow()
    window.sent([record(pace=0.4)] * 10, 10.0)
    assert window.view(10.0, late=False)["slowest"] != "pace"


def test_who_leaves_late_is_not_blamed_on_the_viewer() -> None:
    row = split([record(seen=True, buffer=0.5, decode=0.1)])["p95"]
    assert slowest(row, late=False) == "buffer" and slowest(row, late=True) == "decode"
    assert slowest(None, late=True) is None


def test_the_window_forgets() -> None:
    window = LatencyWindow()
    window.sent([record()], 10.0)
    assert window.view(11.0, late=False)["frames"] == 1
    empty = window.view(30.0, late=False)
    assert empty["frames"] == 0 and empty["slowest"] is None and empty["sent_ms"]["p50"] is None
