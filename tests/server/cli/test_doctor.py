"""`onbeat doctor`: the cost tables, where they come from, and how to have them measured again."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onbeat.models import registry
from onbeat.server import cli
from onbeat.server.cli import cost_report
from onbeat.server.engine import calibrate
from onbeat.server.engine.calibration import Calibration, CostTable
from tests.server.engine.fake import FakeModel

runner = CliRunner()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load_model", lambda *_a, **_k: FakeModel())
    monkeypatch.setattr(calibrate, "SECONDS", dict.fromkeys(calibrate.SECONDS, 0.0))
    # Times of a fake are microseconds and jump; here they only count as measured or not.
    monkeypatch.setattr(calibrate, "SLOWER", float("inf"))
    monkeypatch.setattr(calibrate, "FASTER", 0.0)


def doctor(folder: Path, *flags: str) -> str:
    arguments = ["doctor", "--data-dir", str(folder), "--port", "0", "--max-rows", "4", *flags]
    result = runner.invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_tables_are_kept_shown_and_measured_again_on_request(tmp_path: Path) -> None:
    first = doctor(tmp_path)
    assert "measured now" in first and "batching stops paying at" in first
    assert "steps and commits (step), 6 tokens a row, 3 chunks of history" in first
    again = json.loads(doctor(tmp_path, "--json"))
    costs = again["calibration"]
    assert costs["source"] == "cached" and Path(costs["path"]).is_file()
    step = costs["tables"][1]
    assert [row["rows"] for row in step["rows"]] == [1, 2, 3, 4] and step["knee_rows"] in range(
        1, 5
    )
    assert {f["name"] for f in again["findings"]} >= {"model", "step times", "data folder"}
    forced = json.loads(doctor(tmp_path, "--json", "--recalibrate"))["calibration"]
    assert forced["source"] == "measured" and forced["measured_at"] >= costs["measured_at"]


def test_gain_is_rows_a_second_against_one_row(tmp_path: Path) -> None:
    table = CostTable(
        kind="step",
        tokens=20,
        window=12,
        p50_ms={1: 10.0, 2: 12.0, 4: 24.0},
        p99_ms={1: 11.0, 2: 13.0, 4: 25.0},
        margin=1.1,
    )
    made = Calibration(tables=[table], measured_at=0.0, took=1.0, source="cached")
    report = cost_report.cost_report(made, tmp_path / "x.json")
    (shown,) = report["tables"]
    assert [row["gain"] for row in shown["rows"]] == pytest.approx([1.0, 1.667, 1.667])
    assert shown["rows"][1]["rows_per_s"] == pytest.approx(166.7) and shown["knee_rows"] == 2
    assert "checked now" in cost_report.origin(report)
