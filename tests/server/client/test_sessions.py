"""Live sessions over HTTP through the client, and the reading of events."""

import io

import pytest

from onbeat.client import AsyncOnbeatClient, OnbeatClient, Refused
from onbeat.client.events import EventReader


def test_a_session_is_opened_steered_forked_and_closed(address: str) -> None:
    with OnbeatClient(address) as client:
        session = client.sessions.create("a red ball", seed=7)
        assert (session.seed, session.mode, session.fps) == (7, "text-to-video", 20)
        assert session.recognised == ["a", "red", "ball"]
        kinds = []
        for event in client.sessions.events(session.id):
            kinds.append(event.type)
            if event.type == "status":
                break
        assert "status" in kinds and event.data["status"] in ("live", "paused")
        applied = client.sessions.steer(session.id, prompt="a blue ball")
        assert applied.revision == 1
        assert [each.id for each in client.sessions.list()] == [session.id]
        assert client.sessions.get(session.id).prompt == "a blue ball"
        recording = client.sessions.record(session.id)
        assert recording.session_id == session.id and recording.status == "recording"
        assert client.sessions.stop_recording(recording.id).status in ("completed", "failed")
        assert client.sessions.recording(recording.id).prompt == "a blue ball"
        again = client.sessions.record(session.id)
        client.sessions.stop_recording(again.id)
        for found in (client.sessions.recordings(), client.sessions.recordings(session.id)):
            assert [each.id for each in found] == [again.id, recording.id]
        client.sessions.delete_recording(again.id)
        one = client.sessions.recordings(order="asc", limit=1)
        assert [each.id for each in one] == [recording.id]
        with pytest.raises(Refused) as refusal:
            client.sessions.steer(session.id, sharpness=1)
        assert refusal.value.param == "sharpness"
        client.sessions.close(session.id)
        assert client.sessions.list() == []
        with pytest.raises(Refused):
            client.sessions.snapshot(session.id, io.BytesIO())
        with pytest.raises(Refused):
            next(client.sessions.events(session.id))


async def test_the_same_awaited(address: str) -> None:
    async with AsyncOnbeatClient(address) as client:
        session = await client.sessions.create("a red ball")
        async for event in client.sessions.events(session.id):
            if event.type == "status":
                break
        assert (await client.sessions.steer(session.id, seed=9)).revision == 1
        assert [each.seed for each in await client.sessions.list()] == [9]
        made = await client.sessions.record(session.id)
        assert (await client.sessions.recording(made.id)).prompt == "a red ball"
        assert [each.id async for each in client.sessions.recordings()] == [made.id]
        await client.sessions.delete_recording(made.id)
        with pytest.raises(Refused):
            await client.sessions.fork(session.id, sharpness=1)
        await client.sessions.close(session.id)
        with pytest.raises(Refused):
            await client.sessions.snapshot(session.id, io.BytesIO())


def test_events_are_read_from_lines() -> None:
    reader = EventReader()
    lines = [
        ": a comment",
        "event: status",
        "id: 7",
        'data: {"a":',
        "data:1}",
        "",
        "data: text",
        "retry: 5",
        "",
        "",
    ]
    found = [event for line in lines if (event := reader.feed(line)) is not None]
    assert [(each.type, each.data, each.id) for each in found] == [
        ("status", {"a": 1}, "7"),
        ("message", "text", "7"),
    ]
