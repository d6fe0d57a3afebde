"""Health, metrics, models, the overview and the pages."""

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from onbeat.server.api.frames import ALL_STAGES
from onbeat.server.api.telemetry import Telemetry
from tests.server.api.conftest import Server, StartServer, application, until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import OFFER
from tests.server.api.test_sessions import error_of


def overview(server: Server) -> dict[str, Any]:
    body: dict[str, Any] = server.http.get("/v1/overview").json()
    return body


def samples(server: Server) -> dict[str, float]:
    text = server.http.get("/metrics").text
    return {
        sample.name + "".join(f"{{{v}}}" for v in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_not_ready_before_the_engine_is(tmp_path: Any) -> None:
    engine = FakeEngine()
    engine.start = lambda: None  # type: ignore[method-assign]
    with application(engine, data_dir=tmp_path) as client:
        assert client.get("/health").json() == {"status": "ok"}
        answer = client.get("/ready")
        assert answer.status_code == 503 and answer.json()["engine"] == "starting"
        for path in ("/v1/sessions", "/v1/videos"):
            refused = client.post(path, json={"prompt": "a ball"})
            assert refused.status_code == 503
            assert error_of(refused)["code"] == "engine_starting"
            assert refused.headers["retry-after"] == "1"
    assert engine.closed


def test_models(server: Server) -> None:
    listed = server.http.get("/v1/models").json()["data"][0]
    assert (listed["id"], listed["sizes"], listed["max_steps"]) == ("toybox", ["32x32"], 4)
    assert server.http.get("/v1/models/toybox").json() == listed


def test_capacity_is_what_the_engine_says_now(server: Server) -> None:
    server.session()
    until(lambda: server.front.hub.stats is not None)
    server.engine.capacity = 2
    until(lambda: server.http.get("/v1/models/toybox").json()["capacity_streams"] == 2)
    assert server.http.get("/v1/models/toybox").json()["calibrated_streams"] == 4
    until(lambda: samples(server)["onbeat_engine_streams_capacity"] == 2)


def test_the_shape_of_the_overview(server: Server) -> None:
    made = server.session()
    server.http.post(made["duplex_url"], content=OFFER, headers={"content-type": "application/sdp"})
    server.ended(server.video()["id"])

    def whole() -> dict[str, Any] | None:
        found = overview(server)
        known = found["jobs"].get("completed") and found["live"]["frames_due"] and found["ladder"]
        shown = known and found["sessions"] and found["sessions"][0]["stages_ms"]["denoise"]
        return found if shown and found["first_frame_ms"]["p50"] is not None else None

    body = until(whole)
    assert {"at", "uptime_s", "engine", "live", "batch", "stages_ms"} <= set(body)
    assert body["engine"]["state"] == "ready" and body["engine"]["pages_total"] == 64
    assert body["engine"]["capacity_streams"] == body["engine"]["calibrated_streams"] == 4
    (cost,) = body["engine"]["costs"]
    assert (cost["kind"], cost["rows"], cost["p99_ms"]) == ("step", 4, 9.0)
    assert cost["p99_error"] == pytest.approx(0.2)
    assert body["live"]["sessions"] == body["live"]["viewers"] == 1
    assert body["live"]["on_time_ratio_10s"] == 1.0 and body["live"]["frames_due"] > 0
    assert body["batch"]["rows_mean"] == 1.5 and body["batch"]["rows_max"] == 2
    assert body["batch"]["step_ms"]["p50"] == pytest.approx(5.0)
    assert body["batch"]["decode_ms"]["p50"] == pytest.approx(3.0)
    assert body["stages_ms"]["decode"]["p50"] == pytest.approx(5.0)
    assert tuple(body["stages_ms"]) == ALL_STAGES
    assert body["batch"]["efficiency"] == pytest.approx((1.25 + 10 / 6) / 2, abs=1e-3)
    assert body["admission_ms"]["p50"] >= 0 and body["ladder"] == {"1 of 2 steps": 1}
    assert {"answers_5xx", "jobs_failed", "engine_restarts"} <= set(body["errors"])
    assert body["stages_ms"]["denoise"]["p99"] == pytest.approx(10.0)
    assert body["stages_ms"]["encode"]["p50"] == pytest.approx(1.0, abs=1e-3)
    assert body["first_frame_ms"]["p50"] is not None
    assert body["jobs"] == dict(queued=0, running=0, completed=1, failed=0, cancelled=0)
    session = body["sessions"][0]
    assert (session["id"], session["prompt"], session["status"]) == (
        made["id"],
        "a red ball",
        "live",
    )
    assert session["stages_ms"]["denoise"] == pytest.approx(10.0)
    assert body["live"]["fps_target"] == 20


def test_one_session_with_its_last_chunks(server: Server) -> None:
    made = server.session()
    url = f"/v1/overview/sessions/{made['id']}"
    until(lambda: any(c["encode"] is not None for c in server.http.get(url).json()["recent"]))
    body = server.http.get(url).json()
    assert body["id"] == made["id"] and body["fps"] == 20
    for entry in body["recent"]:
        assert set(entry) == {"chunk", "steps", "on_time", *ALL_STAGES}
    gone = server.http.get("/v1/overview/sessions/session_x")
    assert gone.status_code == 404 and error_of(gone)["code"] == "session_not_found"


def test_copies_of_paused_sessions_add_up(server: Server) -> None:
    engine = until(lambda: (e := overview(server)["engine"])["kv_transfer_bytes"] >= 3000 and e)
    assert engine["paused_streams"] == {"host": 3, "restoring": 1}
    assert (engine["kv_host_bytes"], engine["kv_host_bytes_total"]) == (4000, 9000)
    reports = engine["kv_transfer_bytes"] / 1000
    assert engine["kv_transfer_ms"] == pytest.approx(20 * reports)
    assert engine["kv_transfer_exposed_ms"] == pytest.approx(reports)
    assert engine["kv_transfer_waited_ms"] == pytest.approx(4 * reports)
    metrics = samples(server)
    assert metrics["onbeat_kv_transfer_bytes_total"] >= 3000
    assert metrics["onbeat_kv_transfer_exposed_seconds_total"] >= 0.003
    assert metrics["onbeat_streams_paused{host}"] == 3
    assert metrics["onbeat_streams_paused{latents}"] == 0


def test_generated_sessions_are_shown_before_resting_ones(server: Server) -> None:
    resting = server.session(paused=True)
    running = server.session()
    shown = until(lambda: len(s := overview(server)["sessions"]) == 2 and s)
    assert [s["id"] for s in shown] == [running["id"], resting["id"]]


def test_an_idle_overview_knows_nothing(server: Server) -> None:
    body = until(lambda: overview(server))
    assert body["live"]["on_time_ratio"] is None and body["first_frame_ms"]["p99"] is None
    assert body["sessions"] == [] and body["rejected"] == {}


def test_refusals_are_counted(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(capacity=0))
    server.http.post("/v1/sessions", json={"prompt": "a ball"})
    until(lambda: overview(server)["rejected"] == {"capacity": 1})
    assert samples(server)["onbeat_admission_rejected_total{capacity}"] == 1


def test_refusals_of_the_settings_are_counted_too(start_server: StartServer) -> None:
    server = start_server(max_sessions=1, max_viewers=1)
    url = server.session()["whep_url"]
    server.http.post("/v1/sessions", json={"prompt": "a ball"})
    for _ in range(2):
        server.http.post(url, content=OFFER, headers={"content-type": "application/sdp"})
    until(lambda: overview(server)["rejected"] == {"capacity": 1, "viewers": 1})


def test_history(server: Server) -> None:
    server.session()
    history = server.front.telemetry.history
    until(lambda: [point["sessions"] for point in list(history)[-2:]] == [1, 1])
    body = server.http.get("/v1/overview/history", params={"seconds": 1}).json()
    assert body["interval_s"] == 0.5 and len(body["points"]) == 2
    first, second = body["points"]
    assert first["at"] < second["at"] and first["sessions"] == 1
    assert {"on_time_ratio", "busy_ratio", "step_ms_p50", "step_ms_p99"} <= set(first)
    assert {"rows_mean", "viewers", "jobs_running", "fps_sent"} <= set(first)
    wrong = server.http.get("/v1/overview/history", params={"seconds": "nan"})
    assert wrong.status_code == 422 and error_of(wrong)["param"] == "seconds"


def test_the_overview_comes_as_events(start_server: StartServer, tmp_path: Any) -> None:
    """Read on the loop itself, as this stream never ends."""
    server = start_server()
    front = server.front

    async def read() -> list[dict[str, Any]]:
        from onbeat.server.api.status_routes import overview_events
        from onbeat.server.api.video_events import EventStream

        seen = []
        answer = await overview_events(front)
        assert isinstance(answer, EventStream) and answer.headers["cache-control"] == "no-store"
        async for event in answer.body_iterator:
            assert isinstance(event, bytes)
            kind, data, *end = event.split(b"\n")
            assert kind == b"event: overview" and end == [b"", b""]
            seen.append(json.loads(data.removeprefix(b"data: ")))
            if len(seen) == 3:
                return seen
        raise AssertionError("ended")

    import asyncio

    seen = asyncio.run_coroutine_threadsafe(read(), front._loop).result(100)
    assert seen[0]["at"] < seen[1]["at"] < seen[2]["at"]


def test_who_asks_before_the_first_tick_gets_a_whole_overview(server: Server) -> None:
    fresh = Telemetry(
        server.front.hub, server.front.sessions, lambda seconds: None, lambda seconds: None
    )
    early = json.loads(fresh.latest_json())
    assert early.keys() == overview(server).keys() and early["engine"]["state"] == "ready"
    assert not fresh.history


def test_metrics(server: Server) -> None:
    made = server.session()
    server.http.patch(f"/v1/sessions/{made['id']}", json={"seed": 4})
    server.ended(server.video()["id"])
    late = (
        "onbeat_kv_pages onbeat_frames_generated_total onbeat_control_to_photon_seconds_count "
        "onbeat_chunk_duration_seconds_count{denoise} onbeat_job_duration_seconds_count{completed}"
    ).split()
    found = until(lambda: (s := samples(server)) and all(map(s.get, late)) and s)
    assert found["onbeat_sessions_active"] == 1
    assert found["onbeat_frames_generated_total"] > 0
    assert found["onbeat_chunks_total{on_time}"] > 0
    assert found["onbeat_chunk_duration_seconds_count{denoise}"] > 0
    assert found["onbeat_control_to_photon_seconds_count"] == 1
    assert found["onbeat_jobs_total{completed}"] == 1
    assert found["onbeat_job_duration_seconds_count{completed}"] == 1
    assert found["onbeat_engine_up"] == 1 and found["onbeat_kv_pages"] == 64
    assert found["onbeat_denoise_step_seconds_count"] > 0
    assert found["onbeat_forward_seconds{step}{0.99}{4}{predicted}"] == pytest.approx(0.0075)
    assert found["onbeat_forward_p99_error_ratio{step}{4}"] == pytest.approx(0.2)
    assert any(name.startswith("onbeat_build_info") for name in found)
    assert all(name.startswith("onbeat_") for name in found)
    assert not any(made["id"] in name for name in found), "labels are bounded"


def test_restarts_are_counted(server: Server) -> None:
    server.engine.crash()
    until(lambda: samples(server)["onbeat_engine_restarts_total"] == 1)
    until(lambda: samples(server)["onbeat_engine_up"] == 1)


def test_pages(server: Server) -> None:
    for path in ("/", "/dashboard"):
        answer = server.http.get(path)
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
        assert "http://" not in answer.text and "https://" not in answer.text
        assert server.http.head(path).status_code == 200


def test_ready_says_when_no_live_stream_fits(server: Server) -> None:
    assert server.http.get("/ready").json()["capacity_streams"] == 4
    server.engine.capacity = 0
    body = until(lambda: (b := server.http.get("/ready").json()).get("warning") and b)
    assert body["capacity_streams"] == 0 and "live stream" in body["warning"]
    assert server.http.get("/ready").status_code == 200, "jobs can still be made"
