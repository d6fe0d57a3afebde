"""The comparison on the real engine, with runs made up: bound, ratios, text; real processes."""

from typing import Any

import pytest

from onbeat.server.engine import bench_policies
from onbeat.server.engine.bench_policies import compare_real, real_table, whole_streams
from onbeat.server.engine.bench_processes import run_processes
from tests.server.engine.fake import SPEC, FakeModel

CALIBRATED = {"1": 10.0, "4": 20.0, "16": 40.0}
DECODE = {1: 0.004, 4: 0.012}


def fake_run(model: Any, *, streams: int, policy: str, **more: Any) -> dict[str, Any]:
    """edf-s keeps 10 streams, any other policy 4; all of them are offered to it."""
    most = 10 if policy == "edf-s" else 4
    clean = streams if streams <= most else 0
    return {
        "streams_offered": streams,
        "streams_admitted": streams,
        "streams_clean": clean,
        "on_time_frame_ratio": min(1.0, most / streams),
        "worst_stream_ratio": 1.0,
        "steps_mean": 2.0,
        "step_ms": {"calibrated": CALIBRATED, "slower": 1.25},
        "decode_ms": {"calibrated": {"1": 4.0, "4": 12.0}},
    }


def test_ratios_are_against_the_bound_and_the_cost_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_policies, "run_streams", fake_run)
    monkeypatch.setattr(bench_policies, "load_model", lambda name: FakeModel())
    said: list[str] = []
    names = ["edf-s", "time-slice"]
    result = compare_real("fake", loads=[4, 8, 10, 12], seconds=1.0, names=names, say=said.append)
    assert result["streams_clean"] == {"edf-s": 10, "time-slice": 4}
    assert list(result["points"]["time-slice"]) == ["4", "8"], "no higher load after a failure"
    assert result["batching_limit"] == 4.5, "batches of 24 rows, beyond the last that was timed"
    assert result["edf_s_ratio"] == {"time-slice": 2.5}
    assert result["share_of_batching_limit"] == pytest.approx(2.5 / 4.5, abs=1e-3)
    assert result["slower_in_the_run"] == 1.25
    share = result["share_of_batching_limit_in_the_run"]
    assert share == result["share_of_batching_limit"], "both were slower alike"
    busy = whole_streams(SPEC, {int(n): 1.25 * ms / 1e3 for n, ms in CALIBRATED.items()}, DECODE)
    assert result["bound_streams_in_the_run"] == busy
    assert result["edf_s_to_bound_in_the_run"] == round(10 / min(busy.values()), 3)
    assert len(said) == 6
    assert "batching pays" in real_table(result)


def test_the_smaller_lane_bounds_the_streams() -> None:
    compute = {int(n): ms / 1e3 for n, ms in CALIBRATED.items()}
    bound = whole_streams(SPEC, compute, {1: 0.010})
    assert bound["decode"] == 20
    assert bound["compute"] == pytest.approx(0.2 / (3 * 0.0533 / 24), abs=1)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="policies: best; allowed: edf-s"):
        compare_real("fake", loads=[1], seconds=1.0, names=["best"], say=print)


@pytest.mark.slow
def test_one_process_per_stream() -> None:
    result = run_processes("toybox", streams=1, seconds=1.0)
    assert result["streams_admitted"] == 1 and 0.0 <= result["on_time_frame_ratio"] <= 1.0
