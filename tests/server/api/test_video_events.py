"""Events of a job: in order, each once, taken up again after any of them, on another server too."""

import json
from typing import Any

import pytest

from onbeat.server.engine.messages import CloseStream
from tests.server.api.conftest import Server, StartServer, until
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.test_sessions import error_of

Event = dict[str, Any]


def events(server: Server, video_id: str, last: str | None = None) -> list[Event]:
    """All events until the stream ends."""
    headers = {} if last is None else {"last-event-id": last}
    answer = server.http.get(f"/v1/videos/{video_id}/events", headers=headers)
    if answer.status_code == 204:
        return []
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [_read(block) for block in answer.text.split("\n\n") if "event:" in block]


def _read(block: str) -> Event:
    fields = dict(line.split(": ", 1) for line in block.splitlines())
    return {"kind": fields["event"], "id": fields.get("id"), "data": json.loads(fields["data"])}


def test_the_whole_story(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.25))
    made = server.video(seconds="2")
    told = events(server, made["id"])
    kinds = [event["kind"] for event in told if event["id"] is not None]
    assert kinds[:2] == ["queued", "started"] and kinds[-1] == "completed"
    assert "progress" in kinds
    numbers = [int(event["id"]) for event in told if event["id"] is not None]
    assert numbers == sorted(set(numbers))
    assert told[-1]["data"]["video"] == server.http.get(f"/v1/videos/{made['id']}").json()
    paced = [event["data"] for event in told if event["kind"] == "progress"]
    for data in (each for each in paced if each["frames_per_second"] is not None):
        left = 4 * (data["chunks"] - data["chunk"])
        assert data["frames_per_second"] * data["eta_s"] == pytest.approx(left, rel=0.02, abs=0.1)
    shares = [event["data"]["progress"] for event in told if event["kind"] == "progress"]
    assert (
        shares == sorted(shares) and 0 < shares[0] < 100 and all(isinstance(s, int) for s in shares)
    )


def test_it_goes_on_after_any_event(server: Server) -> None:
    done = server.ended(server.video()["id"])
    whole = events(server, done["id"])
    for at, event in enumerate(whole):
        rest = events(server, done["id"], event["id"])
        assert [e["id"] for e in rest] == [e["id"] for e in whole[at + 1 :]]
    last = {"last-event-id": whole[-1]["id"]}
    answer = server.http.get(f"/v1/videos/{done['id']}/events", headers=last)
    assert answer.status_code == 204, "which tells a browser not to come back"


def test_it_goes_on_at_another_server(start_server: StartServer) -> None:
    first = start_server()
    done = first.ended(first.video()["id"])
    whole = events(first, done["id"])
    first.http.__exit__(None, None, None)
    second = start_server()
    assert events(second, done["id"], "1") == whole[1:]


def test_a_waiting_job_tells_its_place(start_server: StartServer) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.05), max_jobs_running=1)
    server.video(seconds="1")
    until(lambda: server.engine.streams)
    told = events(server, server.video()["id"])
    waiting = [event for event in told if event["kind"] == "waiting"]
    assert waiting and waiting[0]["data"]["queue_position"] == 1
    assert waiting[0]["id"] is None and waiting[0]["data"]["eta_s"] > 0


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_the_stream_ends_with_the_job(start_server: StartServer, how: str) -> None:
    server = start_server(engine=FakeEngine(job_chunk_seconds=0.1))
    made = server.video(seconds="60")
    until(lambda: server.engine.streams)
    url = f"/v1/videos/{made['id']}"
    if how == "cancel":
        server.http.post(f"{url}/cancel")
        assert events(server, made["id"])[-1]["kind"] == "cancelled"
    else:
        server.http.delete(url)
        assert server.http.get(f"{url}/events").status_code == 404
    until(lambda: any(isinstance(c, CloseStream) for c in server.engine.commands))


@pytest.mark.parametrize("last", ["x", "-1", "1.5"])
def test_ids_that_are_none(server: Server, last: str) -> None:
    done = server.ended(server.video()["id"])
    url = f"/v1/videos/{done['id']}/events"
    answer = server.http.get(url, headers={"last-event-id": last})
    assert answer.status_code == 422 and error_of(answer)["param"] == "last-event-id"
