"""The data channel: JSON both ways, limits, and the heartbeat."""

import asyncio
import json
import time
from typing import Any

import pytest

from onbeat.webrtc.control import MessageError, TokenBucket, parse_message
from onbeat.webrtc.settings import PeerSettings


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{}", "not_text"),
        ("x" * 101, "too_large"),
        ("é" * 60, "too_large"),
        ("{", "not_json"),
        ("[" * 90, "not_json"),
        ("[]", "not_object"),
        ("1", "not_object"),
    ],
)
def test_bad_messages_name_what_is_wrong(data: str | bytes, code: str) -> None:
    with pytest.raises(MessageError) as caught:
        parse_message(data, 100)
    assert caught.value.code == code


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    with pytest.raises(MessageError):
        parse_message("[" * 16_000, 16_384)


def test_the_bucket_allows_a_burst_and_then_the_rate() -> None:
    bucket = TokenBucket(20, 40)
    assert sum(bucket.take(0.0) for _ in range(100)) == 40
    assert sum(bucket.take(1.0) for _ in range(100)) == 20


async def open_control(receiver: Any, broadcast: Any, heard: list[Any], **settings: Any) -> Any:
    viewer = receiver(channel="control")
    await viewer.join(
        broadcast,
        PeerSettings(**settings),
        on_message=lambda peer, message: heard.append((peer.id, message)),
    )
    await viewer.until(lambda: viewer.channel.readyState == "open")
    return viewer


async def answer(viewer: Any) -> Any:
    return json.loads(await asyncio.wait_for(viewer.messages.get(), 20))


async def test_messages_go_both_ways(broadcast: Any, receiver: Any) -> None:
    heard: list[Any] = []
    viewer = await open_control(receiver, broadcast, heard)
    viewer.channel.send('{"type": "prompt", "prompt": "a red ball"}')
    await viewer.until(lambda: heard)
    assert heard == [(viewer.peer.id, {"type": "prompt", "prompt": "a red ball"})]
    assert viewer.peer.send({"type": "hello", "n": 1})
    assert await answer(viewer) == {"type": "hello", "n": 1}
    viewer.channel.send('{"type": "ping", "t": 5}')
    assert (await answer(viewer))["type"] == "pong"
    assert len(heard) == 1


async def test_bad_messages_are_answered_and_the_channel_lives(
    broadcast: Any, receiver: Any
) -> None:
    heard: list[Any] = []
    viewer = await open_control(receiver, broadcast, heard)
    for data, code in [("{", "not_json"), ("[1]", "not_object"), (b"{}", "not_text")]:
        viewer.channel.send(data)
        reply = await answer(viewer)
        assert reply["type"] == "error" and reply["code"] == code
    viewer.channel.send(json.dumps({"x": "y" * 20_000}))
    assert (await answer(viewer))["code"] == "too_large"
    viewer.channel.send('{"ok": 1}')
    await viewer.until(lambda: heard)


async def test_a_flood_is_dropped_and_answered_seldom(broadcast: Any, receiver: Any) -> None:
    """What is heard follows the rate, however long the flood takes to arrive."""
    sent, burst, rate = 400, PeerSettings().message_burst, PeerSettings().messages_per_second
    heard: list[Any] = []
    viewer = await open_control(receiver, broadcast, heard)
    began = time.monotonic()
    for number in range(sent):
        viewer.channel.send(json.dumps({"n": number}))

    def refused() -> int:
        return int(viewer.peer.stats()["messages_refused"])

    await viewer.until(lambda: refused() + len(heard) >= sent, timeout=60.0)
    allowed = burst + rate * (1 + time.monotonic() - began)
    assert 40 <= len(heard) <= allowed
    assert refused() >= sent - allowed
    if refused():
        assert (await answer(viewer))["code"] == "rate_limited"
        assert viewer.messages.qsize() <= refused() // 10


async def test_a_failing_handler_does_not_take_the_connection_down(
    broadcast: Any, receiver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(peer: Any, message: Any) -> None:
        raise RuntimeError("handler")

    viewer = receiver(channel="control")
    await viewer.join(broadcast, on_message=fail)
    await viewer.until(lambda: viewer.channel.readyState == "open")
    viewer.channel.send("{}")
    assert (await answer(viewer))["code"] == "internal"
    assert viewer.peer.state == "connected" and "handler" in caplog.text


async def test_other_channels_are_closed(broadcast: Any, receiver: Any) -> None:
    viewer = await open_control(receiver, broadcast, [])
    other = viewer.open_channel("chat")
    await viewer.until(lambda: other.readyState == "closed")
    assert viewer.peer.state == "connected"
    for number in range(9):
        viewer.open_channel(f"more {number}")
    await viewer.until(viewer.peer.closed.is_set)
    assert viewer.peer.close_reason == "too many data channels"


async def test_what_waits_for_a_slow_reader_is_bounded(broadcast: Any, receiver: Any) -> None:
    viewer = await open_control(receiver, broadcast, [], max_buffered_bytes=20_000)
    taken = [viewer.peer.send({"x": "y" * 1_000}) for _ in range(100)]
    assert taken[0] and not taken[-1] and 10 < sum(taken) < 30


async def test_nothing_is_sent_without_a_channel(broadcast: Any, receiver: Any) -> None:
    peer = await receiver().join(broadcast)
    assert not peer.send({})


async def test_a_lost_heartbeat_closes_the_peer(broadcast: Any, receiver: Any) -> None:
    viewer = await open_control(receiver, broadcast, [], heartbeat_deadline=0.3)
    await asyncio.sleep(0.6)
    assert viewer.peer.state == "connected", "who never pinged is not expected to"
    viewer.channel.send('{"type": "ping"}')
    await viewer.until(viewer.peer.closed.is_set)
    assert viewer.peer.close_reason == "heartbeat lost"
