"""Live sessions over HTTP: made, looked at, steered, refused, paused, ended."""

import base64
import io
import json
import threading
from typing import Any

import msgspec
import pytest
from PIL import Image

from onbeat.server.engine.messages import CloseStream, ControlStream
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_engine import CHUNK_FRAMES, FPS, SIZE, FakeEngine
from tests.server.api.fake_media import OFFER

SDP = {"content-type": "application/sdp"}


def error_of(answer: Any) -> dict[str, Any]:
    """The error object; checks that the rest of the body agrees with it."""
    body = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert body["status"] == answer.status_code
    assert body["detail"] == body["error"]["message"]
    assert body["request_id"] == answer.headers["x-request-id"]
    error: dict[str, Any] = body["error"]
    assert {"message", "type", "code", "param"} <= set(error)
    return error


def test_a_session_tells_what_it_is(server: Server) -> None:
    made = server.session(prompt="a red ball and a zeppelin", seed=7, num_inference_steps=3)
    base = f"/v1/sessions/{made['id']}"
    assert made["object"] == "session" and made["status"] == "live"
    assert made["id"].startswith("session_") and len(made["id"]) == 40
    assert made["recognised"] == ["a", "red", "ball", "a"]
    assert (made["seed"], made["num_inference_steps"], made["model"]) == (7, 3, "toybox")
    assert (made["fps"], made["width"], made["height"]) == (20, 32, 32)
    assert made["whep_url"] == f"{base}/whep" and made["duplex_url"] == f"{base}/duplex"
    assert made["events_url"] == f"{base}/events"
    assert (made["viewers"], made["revision"]) == (0, 0)
    assert server.http.get(base).json()["id"] == made["id"]
    assert [s["id"] for s in server.http.get("/v1/sessions").json()["data"]] == [made["id"]]


def test_defaults_are_the_models_and_the_seed_is_told(server: Server) -> None:
    made = server.session()
    assert made["num_inference_steps"] == 2
    assert 0 <= made["seed"] < 2**53
    opened = server.engine.opened("live")[-1]
    assert (opened.seed, opened.steps, opened.stream_id) == (made["seed"], 2, made["id"])


def test_chunks_reach_the_broadcast_in_order(server: Server) -> None:
    server.session(seed=3)
    chunks = until(lambda: len(server.media.broadcasts[0].chunks) >= 3 and server.media)
    first = chunks.broadcasts[0].chunks[:3]
    assert [chunk.index for chunk in first] == [0, 1, 2]
    assert first[0].frames.shape == (CHUNK_FRAMES, 48, 32)
    assert first[0].audio.any()
    assert first[0].playout_at < first[1].playout_at < first[2].playout_at


def test_without_audio_the_sound_is_silence(server: Server) -> None:
    server.session(audio=False)
    until(lambda: server.media.broadcasts[0].chunks)
    assert not server.media.broadcasts[0].chunks[0].audio.any()


def test_closing_ends_stream_viewers_and_broadcast(server: Server) -> None:
    made = server.session()
    server.http.post(made["whep_url"], content=OFFER, headers=SDP)
    answer = server.http.delete(f"/v1/sessions/{made['id']}")
    assert answer.json() == {"id": made["id"], "object": "session.deleted", "deleted": True}
    assert server.media.peers[0].closed and server.media.broadcasts[0].closed
    assert CloseStream(stream_id=made["id"]) in server.engine.commands
    gone = server.http.get(f"/v1/sessions/{made['id']}")
    assert gone.status_code == 404 and error_of(gone)["code"] == "session_not_found"


def test_a_control_names_the_chunk_at_which_it_acts(server: Server) -> None:
    made = server.session()
    answer = server.http.patch(f"/v1/sessions/{made['id']}", json={"prompt": "a blue square"})
    body = answer.json()
    assert answer.status_code == 200 and body["applied"] is True
    assert body["revision"] == 1 and body["prompt"] == "a blue square"
    assert body["recognised"] == ["a", "blue", "square"]
    assert body["media_time"] == pytest.approx(body["chunk"] * CHUNK_FRAMES / FPS)


def test_both_names_of_steps_are_taken(server: Server) -> None:
    url = f"/v1/sessions/{server.session()['id']}"
    assert server.http.patch(url, json={"steps": 3}).json()["num_inference_steps"] == 3
    answer = server.http.patch(url, json={"num_inference_steps": 4}).json()
    assert (answer["num_inference_steps"], answer["revision"]) == (4, 2)


def test_a_control_says_how_a_prompt_is_taken_up(server: Server) -> None:
    url = f"/v1/sessions/{server.session()['id']}"
    change = {"prompt": "a blue square", "transition": "recache"}
    assert server.http.patch(url, json=change).status_code == 200
    (command,) = [c for c in server.engine.commands if isinstance(c, ControlStream)]
    assert command.transition == "recache"
    wrong = server.http.patch(url, json={"prompt": "a red ball", "transition": "fade"})
    assert wrong.status_code == 422 and "transition" in wrong.text


def test_a_control_of_a_paused_session_is_answered_at_once(server: Server) -> None:
    url = f"/v1/sessions/{server.session()['id']}"
    paused = server.http.patch(url, json={"paused": True}).json()
    assert paused["status"] == "paused" and paused["applied"] is False and paused["chunk"] is None
    resumed = server.http.patch(url, json={"paused": False}).json()
    assert resumed["status"] == "live" and resumed["applied"] is True


def test_a_session_may_be_opened_paused(server: Server) -> None:
    made = server.session(paused=True)
    assert made["status"] == "paused" and server.engine.opened("live")[-1].paused
    assert not server.media.broadcasts[0].chunks
    url = f"/v1/sessions/{made['id']}"
    assert server.http.patch(url, json={"paused": False}).json()["status"] == "live"
    until(lambda: server.media.broadcasts[0].chunks)


def test_two_hundred_paused_sessions_leave_nothing_behind(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(capacity=200), max_sessions=200)
    server.session(paused=True)
    threads = threading.active_count()
    for _ in range(199):
        server.session(paused=True)
    made = server.http.get("/v1/sessions").json()["data"]
    assert {s["status"] for s in made} == {"paused"} and len(made) == 200
    assert threading.active_count() < threads + 100
    for session in made:
        server.http.delete(f"/v1/sessions/{session['id']}")
    assert not server.http.get("/v1/sessions").json()["data"]
    assert not server.engine.streams and all(b.closed for b in server.media.broadcasts)


def test_a_resumed_session_may_have_to_wait_until_it_is_paused_again(server: Server) -> None:
    made = server.session(paused=True)
    url = f"/v1/sessions/{made['id']}"
    server.http.patch(url, json={"paused": False})
    server.engine.queue(made["id"])
    waiting = until(lambda: (s := server.http.get(url).json())["status"] == "queued" and s)
    assert waiting["queue_position"] == 1
    paused = server.http.patch(url, json={"paused": True}).json()
    assert paused["status"] == "paused" and paused["queue_position"] is None


def test_one_stream_too_many_is_told_its_place(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(capacity=1))
    server.session()
    answer = server.http.post("/v1/sessions", json={"prompt": "a ball"})
    error = error_of(answer)
    assert answer.status_code == 503 and answer.headers["retry-after"] == "2"
    assert (error["code"], error["queue_position"], error["retry_after"]) == ("capacity", 1, 2.0)
    assert "1 streams run, 1 fit" in error["message"]
    assert answer.json()["queue_position"] == 1 and answer.json()["retry_after"] == 2.0
    assert len(server.http.get("/v1/sessions").json()["data"]) == 1
    assert server.media.broadcasts[1].closed


def test_the_settings_cap_sessions_too(start_server: StartServer) -> None:
    server = start_server(max_sessions=1)
    server.session()
    answer = server.http.post("/v1/sessions", json={"prompt": "a ball"})
    assert answer.status_code == 503 and error_of(answer)["code"] == "capacity"


def test_a_prompt_that_the_engine_refuses(server: Server) -> None:
    answer = server.http.post("/v1/sessions", json={"prompt": "invalid"})
    assert answer.status_code == 422 and error_of(answer)["param"] == "prompt"


def test_generation_pauses_without_viewers_and_resumes(start_server: StartServer) -> None:
    server = start_server(pause_after_seconds=0.05)
    made = server.session()
    url = f"/v1/sessions/{made['id']}"
    until(lambda: server.http.get(url).json()["status"] == "paused")
    server.http.post(made["whep_url"], content=OFFER, headers=SDP)
    assert server.http.get(url).json()["status"] == "live"
    pauses = [c.paused for c in server.engine.commands if isinstance(c, ControlStream)]
    assert pauses == [True, False]


def test_nobody_watching_for_long_ends_the_session(start_server: StartServer) -> None:
    server = start_server(idle_session_seconds=0.2)
    url = f"/v1/sessions/{server.session()['id']}"
    until(lambda: server.http.get(url).status_code == 404)


def test_a_viewer_keeps_the_session(start_server: StartServer) -> None:
    server = start_server()
    made = server.session()
    server.http.post(made["whep_url"], content=OFFER, headers=SDP)
    server.now(idle_session_seconds=0.2)
    ticks = len(server.front.telemetry.history)
    until(lambda: len(server.front.telemetry.history) >= ticks + 2)
    assert server.http.get(f"/v1/sessions/{made['id']}").status_code == 200


def test_the_engine_restarts_under_a_session(server: Server) -> None:
    made = server.session()
    url = f"/v1/sessions/{made['id']}"
    server.engine.silent.set()
    server.engine.crash()
    until(lambda: server.http.get("/v1/overview").json()["engine"]["restarts"] == 1)
    server.engine.silent.clear()
    until(lambda: server.http.get(url).json()["status"] == "live")
    seen = len(server.media.broadcasts[0].chunks)
    until(lambda: len(server.media.broadcasts[0].chunks) > seen)


def test_the_engine_fails_for_good(server: Server) -> None:
    url = f"/v1/sessions/{server.session()['id']}"
    server.engine.fail()
    body = until(lambda: (b := server.http.get(url).json())["status"] == "failed" and b)
    assert body["error"]["code"] == "engine_lost"
    answer = server.http.post("/v1/sessions", json={"prompt": "a ball"})
    assert answer.status_code == 503 and error_of(answer)["code"] == "engine_failed"
    assert server.http.get("/ready").status_code == 503
    assert server.http.get("/health").status_code == 200


def test_events_of_a_session_end_with_it(server: Server) -> None:
    made = server.session()
    url = f"/v1/sessions/{made['id']}"
    seen: list[dict[str, Any]] = []
    with server.http.stream("GET", made["events_url"]) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
            if len(seen) == 1:
                server.http.patch(url, json={"prompt": "a green ball"})
                server.http.delete(url)
    kinds = [event["type"] for event in seen]
    assert kinds[0] == "status" and kinds[-1] == "ended" and "applied" in kinds


def test_events_of_an_unknown_session(server: Server) -> None:
    answer = server.http.get("/v1/sessions/session_0/events")
    assert answer.status_code == 404 and error_of(answer)["code"] == "session_not_found"


def test_a_fork_goes_on_from_its_parent(server: Server) -> None:
    made = server.session(prompt="a red ball", seed=7, num_inference_steps=3)
    until(lambda: server.engine.streams[made["id"]].chunk > 0)
    url = f"/v1/sessions/{made['id']}/fork"
    twin = server.http.post(url, json={})
    assert twin.status_code == 201 and twin.json()["id"] != made["id"]
    assert [twin.json()[n] for n in ("prompt", "seed", "num_inference_steps")] == [
        "a red ball",
        7,
        3,
    ]
    other = server.http.post(
        url, json={"prompt": "a blue ball", "seed": 8, "steps": 1, "transition": "recache"}
    ).json()
    assert [other[n] for n in ("prompt", "seed", "num_inference_steps")] == ["a blue ball", 8, 1]
    command = server.engine.opened("live")[-1]
    assert (command.fork_of, command.transition) == (made["id"], "recache")


def test_what_cannot_be_forked_says_why(server: Server) -> None:
    assert server.http.post("/v1/sessions/nobody/fork", json={}).status_code == 404
    bare = server.http.post(
        f"/v1/sessions/{server.session()['id']}/fork", json={"transition": "cut"}
    )
    assert bare.status_code == 400
    assert bare.json()["error"]["code"] == "transition_without_prompt"
    server.engine.silent.set()
    url = f"/v1/sessions/{server.session()['id']}/fork"
    early = server.http.post(url, json={})
    assert early.status_code == 409 and error_of(early)["code"] == "not_forkable"
    wrong = server.http.post(url, json={"steps": 99})
    assert wrong.status_code == 422 and error_of(wrong)["param"] == "steps"


def _picture() -> str:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), (255, 0, 0)).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


@pytest.mark.parametrize("head", ["", "data:image/png;base64,"])
def test_a_session_goes_on_from_a_reference(server: Server, head: str) -> None:
    server.session(reference=head + _picture())
    (command,) = server.engine.opened("live")
    assert command.reference is not None
    wire = msgspec.msgpack.decode(command.reference)
    assert (wire["frames"], wire["width"], wire["fps"]) == (1, SIZE, FPS)


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("no base64!", "reference: not base64"),
        ("é", "reference: not base64"),
        ("data:image/png,abc", "allowed: base64, or data:...;base64,"),
        (base64.b64encode(b"text").decode(), "a file that cannot be read"),
    ],
)
def test_what_cannot_be_a_reference_is_refused(server: Server, reference: str, text: str) -> None:
    answer = server.http.post("/v1/sessions", json={"prompt": "a ball", "reference": reference})
    assert answer.status_code == 422
    error = error_of(answer)
    assert error["param"] == "reference" and text in error["message"]
    assert not server.engine.opened("live")
