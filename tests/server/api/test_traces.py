"""The trace file over HTTP: engine and front in one, bounded, refused in words."""

import pytest

from onbeat.server.api import traces
from tests.server.api.conftest import Server, StartServer, application, until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import OFFER
from tests.server.api.test_sessions import error_of
from tests.server.engine import chrome


def test_the_file_has_lanes_streams_and_sessions(server: Server) -> None:
    made = server.session()
    until(lambda: server.front.sessions.all()[0].meter.chunk)
    answer = server.http.get("/v1/trace", params={"seconds": 10})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert "onbeat-trace.json" in answer.headers["content-disposition"]
    events = chrome.parsed(answer.content)
    assert [e["name"] for e in chrome.on_track(events, "session_x")] == ["#3 step 1/2"]
    here = chrome.on_track(events, made["id"])
    assert here and all(e["name"].endswith("here") and e["args"]["after_ms"] >= 0 for e in here)


@pytest.mark.parametrize("seconds", ["0", "11", "nan", "x"])
def test_no_more_than_ten_seconds(server: Server, seconds: str) -> None:
    answer = server.http.get("/v1/trace", params={"seconds": seconds})
    assert answer.status_code == 422 and error_of(answer)["param"] == "seconds"


def test_an_engine_that_does_not_answer(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "ANSWER_SECONDS", 0.1)
    server = start_server()
    server.engine.silent.set()
    answer = server.http.get("/v1/trace")
    assert answer.status_code == 503 and error_of(answer)["code"] == "engine_silent"
    server.engine.silent.clear()
    monkeypatch.setattr(traces, "ANSWER_SECONDS", 60.0)
    assert server.http.get("/v1/trace").status_code == 200


def test_before_the_engine_is_ready(tmp_path: object) -> None:
    engine = FakeEngine()
    engine.start = lambda: None  # type: ignore[method-assign]
    with application(engine, data_dir=tmp_path) as client:
        answer = client.get("/v1/trace")
        assert answer.status_code == 503 and error_of(answer)["code"] == "engine_starting"


def test_other_origins_are_refused(server: Server) -> None:
    answer = server.http.get("/v1/trace", headers={"origin": "http://evil.example"})
    assert answer.status_code == 403


def test_a_session_that_is_watched_still_has_its_trace(server: Server) -> None:
    made = server.session()
    server.http.post(made["duplex_url"], content=OFFER, headers={"content-type": "application/sdp"})
    until(lambda: len(server.front.sessions.all()[0].viewers) == 1)
    assert chrome.parsed(server.http.get("/v1/trace").content)
