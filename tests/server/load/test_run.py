"""A short run against a server with a synthetic engine and real WebRTC, and its report."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiortc.rtcrtpreceiver
import pytest
from typer.testing import CliRunner

from onbeat.server.cli import app
from onbeat.server.load.figures import figures, percentiles
from onbeat.server.load.http import RefusedError, Server
from onbeat.server.load.report import html, plot, shown
from onbeat.server.load.run import Load, Outcome, instants_of_jobs, run, sessions_of
from tests.server.api.conftest import until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.local_server import LocalServer

NAMES = (
    "ttff_ms ttfc_ms connect_ms control_to_frame_ms chunk_latency_ms inter_frame_ms jitter_ms rtf "
    "pacing_error_ms deadline_miss_rate on_time_frame_ratio skipped_chunks degraded_chunks "
    "mk_failures freeze_count total_freezes_duration_s freeze_rate_per_min frames_dropped "
    "continuous_play_ratio audio_underrun_s av_skew_ms goodput_fps goodput_streams "
    "admission_reject_rate batch_rows batch_efficiency step_ms gpu_busy_ratio kv_pages_used "
    "kv_transfer_exposed_ms plan_ms batch_frames_per_s batch_job_turnaround_s goodput_ratio "
    "interference"
).split()


@pytest.fixture(autouse=True)
def decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes the decoders away; other tests want them back."""
    kept = vars(aiortc.rtcrtpreceiver)["get_decoder"]
    monkeypatch.setattr("aiortc.rtcrtpreceiver.get_decoder", kept)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    server = LocalServer(FakeEngine(capacity=2), data_dir=tmp_path_factory.mktemp("data"))
    asked = Server(server.url)

    def ready() -> bool:
        try:
            return bool(asked.get("/ready"))
        except (OSError, RefusedError):
            return False

    until(ready)
    yield server
    server.close()


def test_viewers_and_jobs_are_measured(local: LocalServer, tmp_path: Path) -> None:
    arrivals = tmp_path / "arrivals.csv"
    arrivals.write_text("start,seconds,class\n0,30,live\n0.1,30,live\n1.5,30,live\n")
    outcome, found = seen_run(local, arrivals)
    assert set(NAMES) <= set(found)
    assert found["sessions_offered"] == 3 and found["sessions_accepted"] == 2
    assert found["admission_reject_rate"] == pytest.approx(1 / 3, abs=1e-4)
    assert [seen.refused for seen in outcome.seen].count("capacity") == 1
    assert found["frames_seen"] > 0
    assert found["deadline_miss_rate"] == 0 and found["jobs_completed"] == len(outcome.jobs) > 0
    assert found["ttff_ms"]["p50"] > 0
    assert found["kv_pages_used"] and found["batch_rows"] == 1.5
    assert found["interference"] is None and isinstance(found["goodput_bound_fps"], float)
    text = html(outcome, found)
    assert text.count("<svg") >= 4 and "ttff_ms" in text and "<script" not in text
    assert "http://" not in text and "https://" not in text
    json.dumps(found)


def seen_run(local: LocalServer, arrivals: Path) -> tuple[Outcome, dict[str, Any]]:
    """A run long enough that viewers connect in it; on a busy machine that takes a while."""
    for seconds in (3, 10, 30):
        load = Load(trace=arrivals, seconds=seconds, warm=1, jobs=2, job_seconds=0.4)
        outcome = asyncio.run(run(Server(local.url), load))
        found = figures(outcome)
        if found["frames_seen"] and found["jobs_completed"] == len(outcome.jobs):
            break
    return outcome, found


def test_the_command_prints_a_table_and_one_line(local: LocalServer, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    arguments = f"bench serve --url {local.url} --rate 2 --lifetime 2 --seconds 1 --warm 0"
    made = CliRunner().invoke(
        app, [*arguments.split(), "--jobs", "2", "--interference", "--report", str(report)]
    )
    assert made.exit_code == 0, made.output
    assert "goodput_streams" in made.output
    found = json.loads(made.output.splitlines()[-1])
    assert found["benchmark"] == "serve" and "deadline_miss_rate_without_jobs" in found
    text = report.read_text()
    assert text.startswith("<!doctype html>") and "with jobs, without" in text
    alone = CliRunner().invoke(app, [*arguments.split(), "--interference"])
    assert alone.exit_code == 2 and "--jobs" in alone.output


def test_who_cannot_be_measured_is_said(tmp_path: Path) -> None:
    nobody = CliRunner().invoke(app, "bench serve --url http://127.0.0.1:9 --seconds 1".split())
    assert nobody.exit_code == 2 and "cannot be measured" in nobody.output
    nowhere = CliRunner().invoke(app, ["bench", "serve", "--report", str(tmp_path / "no" / "r")])
    assert nowhere.exit_code == 2 and "report:" in nowhere.output


def test_the_same_seed_the_same_arrivals() -> None:
    load = Load(rate=2, burstiness=0.3, sigma=0.5, seconds=60, jobs=1)
    assert sessions_of(load) == sessions_of(load) and len(sessions_of(load)) > 60
    assert instants_of_jobs(load) == instants_of_jobs(load)
    assert sessions_of(load) != sessions_of(Load(rate=2, burstiness=0.3, seconds=60, seed=1))


def test_words_for_figures() -> None:
    assert shown(None) == "–" and shown({}) == "none" and shown({"p50": 1.5}) == "p50 1.5"
    assert percentiles([]) is None and percentiles([1.0, 2.0, 3.0])["p50"] == 2.0  # type: ignore[index]
    assert "no data" in plot("Nothing", "s", [[]])
