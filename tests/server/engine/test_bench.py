"""`bench streams` counts what happened; the figures themselves belong to the machine."""

import json
from pathlib import Path

from onbeat.server.engine.bench import run_streams
from tests.server.engine import chrome
from tests.server.engine.fake import FakeModel


def test_the_result_is_one_json_object_with_the_promised_keys(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    result = run_streams(FakeModel(), streams=2, seconds=1.0, admission=False, trace=file)
    events = chrome.parsed(file.read_bytes())
    assert {"stream_0", "stream_1", "decode"} <= set(chrome.track_names(events).values())
    assert json.loads(json.dumps(result)) == result
    assert result["streams_offered"] == result["streams_admitted"] == 2
    assert 0.0 <= result["on_time_frame_ratio"] <= 1.0
    assert result["failures"] == [] and result["refused"]["count"] == 0
    assert {"p50", "p95", "p99", "calibrated"} <= set(result["step_ms"])
    assert {cost["kind"] for cost in result["costs"]} == {"step", "decode", "prefill"}
    assert {"mean", "p50", "max"} <= set(result["batch_rows"])


def test_refusals_are_counted_with_their_reason() -> None:
    result = run_streams(FakeModel(), streams=8, seconds=1.0, headroom=0.01)
    assert result["streams_admitted"] < 8
    assert result["refused"]["capacity"] == 8 - result["streams_admitted"]
    assert "busy" in result["refused"]["reason"]
