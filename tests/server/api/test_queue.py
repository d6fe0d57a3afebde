"""Sessions that wait for room, whose they are, and the quality that they have now."""

import json
from typing import Any

from onbeat.server.api.owner import owner_of
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_engine import FakeEngine


def full(start_server: StartServer) -> tuple[Server, str]:
    """A server with room for one session, which runs; its id."""
    server = start_server(engine=FakeEngine(capacity=1))
    return server, server.session()["id"]


def look(server: Server, session_id: str) -> dict[str, Any]:
    found: dict[str, Any] = server.http.get(f"/v1/sessions/{session_id}").json()
    return found


def test_a_session_waits_and_becomes_live_by_itself(start_server: StartServer) -> None:
    server, first = full(start_server)
    waiting = server.session(wait=True)
    assert waiting["status"] == "queued"
    assert (waiting["queue_position"], waiting["estimated_wait_s"]) == (1, 20.0)
    second = server.session(wait=True)
    assert second["queue_position"] == 2 and second["estimated_wait_s"] == 40.1
    assert until(lambda: server.http.get("/v1/overview").json()["engine"]["waiting"] == 2)
    server.http.delete(f"/v1/sessions/{first}")
    live = until(lambda: (s := look(server, waiting["id"]))["status"] == "live" and s)
    assert live["queue_position"] is None and live["estimated_wait_s"] is None
    assert until(lambda: look(server, second["id"])["queue_position"] == 1)
    assert until(lambda: any(b.chunks for b in server.media.broadcasts[1:]))


def test_the_queue_is_told_in_the_events(start_server: StartServer) -> None:
    server, first = full(start_server)
    waiting = server.session(wait=True)
    seen = []
    with server.http.stream("GET", waiting["events_url"]) as answer:
        for line in answer.iter_lines():
            if line.startswith("data:"):
                seen.append(json.loads(line.removeprefix("data:")))
                if len(seen) == 1:
                    server.http.delete(f"/v1/sessions/{first}")
                if seen[-1]["type"] == "admitted":
                    break
    assert seen[0]["status"] == "queued" and seen[0]["queue_position"] == 1
    assert seen[0]["estimated_wait_s"] == 20.0


def test_a_queued_session_that_is_deleted_leaves_its_place(start_server: StartServer) -> None:
    server, _ = full(start_server)
    one, two = server.session(wait=True), server.session(wait=True)
    server.http.delete(f"/v1/sessions/{one['id']}")
    assert until(lambda: look(server, two["id"])["queue_position"] == 1)
    assert len(server.engine.waiting) == 1


def test_without_wait_a_full_device_refuses(start_server: StartServer) -> None:
    server, _ = full(start_server)
    answer = server.http.post("/v1/sessions", json={"prompt": "a red ball"})
    assert answer.status_code == 503 and answer.json()["queue_position"] == 1


def test_the_owner_is_a_hash_of_the_key_and_never_the_key(server: Server) -> None:
    key = {"authorization": "Bearer sk-secret"}
    for path in ("/v1/sessions", "/v1/videos"):
        assert server.http.post(path, json={"prompt": "a red ball"}, headers=key).is_success
    server.session()
    live, anonymous = server.engine.opened("live")
    (job,) = until(lambda: server.engine.opened("job"))
    assert live.owner == job.owner == owner_of("bearer sk-secret")
    assert len(live.owner) == 16 and "secret" not in live.owner and anonymous.owner == ""
    assert owner_of("Basic abc") == owner_of("Bearer ") == owner_of(None) == ""


def test_quality_is_shown_per_session_and_counted_over_all(server: Server) -> None:
    made = server.session()
    shown = until(lambda: (s := look(server, made["id"]))["quality"] and s)
    assert shown["quality"] == "1 of 2 steps"
    entry = until(
        lambda: (
            (s := server.http.get("/v1/overview").json()["sessions"])
            and s[0]["quality"]
            and s[0]["chunks_by_steps"]
            and s[0]
        )
    )
    assert entry["quality"] == "1 of 2 steps" and set(entry["chunks_by_steps"]) == {"2"}
    text = server.http.get("/metrics").text
    assert 'onbeat_chunk_steps_total{steps="2"}' in text
    assert "onbeat_streams_waiting 0.0" in text


def test_a_resume_that_waits_does_not_claim_to_be_applied(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine())
    session = server.session()
    url = f"/v1/sessions/{session['id']}"
    assert until(lambda: look(server, session["id"])["status"] == "live")
    server.http.patch(url, json={"paused": True})
    server.engine.full = True
    answer = server.http.patch(url, json={"paused": False}).json()
    assert answer["status"] == "queued"
    assert (answer["applied"], answer["chunk"], answer["media_time"]) == (False, None, None)
