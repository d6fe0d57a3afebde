"""How peers end: deadlines, silence, the broadcast's end; and that nothing of them remains."""

import asyncio
import time
from typing import Any

import pytest

from onbeat.webrtc.peer import answer_offer
from onbeat.webrtc.settings import PeerSettings
from tests.webrtc.census import census


async def test_an_offer_that_never_connects_is_closed(broadcast: Any, receiver: Any) -> None:
    viewer = receiver()
    peer = await answer_offer(
        await viewer.offer(), broadcast, settings=PeerSettings(connect_deadline=0.5)
    )
    assert peer.state == "connecting" and broadcast.stats().viewers == 0
    await asyncio.wait_for(peer.closed.wait(), 20)
    assert peer.state == "closed" and peer.close_reason == "not connected in time"
    assert broadcast.stats().bitrate == {}


async def test_a_receiver_that_falls_silent_is_closed(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    viewer = receiver()
    peer = await viewer.join(broadcast, PeerSettings(silence_deadline=2.0))
    await viewer.until(lambda: viewer.packets["video"])
    await asyncio.sleep(2.5)
    assert peer.state == "connected", "a receiver that reports stays"

    async def nothing(packet: object) -> None:
        """A receiver that is gone, though its socket still answers the ICE checks."""

    for each in viewer.pc.getReceivers():
        each._send_rtcp = nothing
    await viewer.until(peer.closed.is_set, 20)
    assert peer.close_reason == "receiver silent"


async def test_nothing_sent_means_nothing_to_report(broadcast: Any, receiver: Any) -> None:
    peer = await receiver().join(broadcast, PeerSettings(silence_deadline=0.3))
    await asyncio.sleep(1.0)
    assert peer.state == "connected"


async def test_a_receiver_that_leaves_is_noticed_at_once(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    viewer = receiver()
    peer = await viewer.join(broadcast)
    await viewer.until(lambda: viewer.packets["video"])
    await viewer.pc.close()
    await asyncio.wait_for(peer.closed.wait(), 20)
    assert broadcast.stats().viewers == 0


async def test_the_end_of_the_broadcast_ends_its_peers(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    viewers = [receiver() for _ in range(2)]
    for viewer in viewers:
        await viewer.join(broadcast)
    broadcast.close()
    broadcast.close()
    for viewer in viewers:
        await asyncio.wait_for(viewer.peer.closed.wait(), 20)
        assert viewer.peer.close_reason == "broadcast ended"
    with pytest.raises(RuntimeError, match="closed"):
        await receiver().join(broadcast)


async def test_close_is_idempotent_and_concurrent(broadcast: Any, receiver: Any) -> None:
    peer = await receiver().join(broadcast)
    await asyncio.gather(*(peer.close() for _ in range(5)))
    await peer.close()
    assert peer.closed.is_set() and not peer.send({})


async def test_a_close_that_hangs_gives_its_sockets_back(
    broadcast: Any, receiver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await receiver().join(broadcast, PeerSettings(close_timeout=0.2))
    sockets = [protocol.transport for c in peer._connections() for protocol in c._protocols]

    async def hang() -> None:
        await asyncio.sleep(60)

    plain, peer._pc.close = peer._pc.close, hang
    await asyncio.wait_for(peer.close(), 20)
    assert sockets and all(transport.is_closing() for transport in sockets)
    await plain()


async def test_a_peer_that_hurts_is_not_felt_by_the_others(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    good, bad = receiver(), receiver()
    await good.join(broadcast)
    peer = await bad.join(broadcast)
    await good.until(lambda: len(good.packets["video"]) > 5)
    track = peer._viewer.video
    track._size = 0  # as if its sender had stopped
    await good.until(
        lambda: len(good.packets["video"]) > 25 and peer.stats()["queue_overflows"] > 0
    )
    numbers = [packet.sequence for packet in good.packets["video"]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    before = len(bad.packets["video"])
    track._size = 60
    await bad.until(lambda: len(bad.packets["video"]) > before)


async def test_join_and_leave_fifty_times_leaves_nothing_behind(
    broadcast: Any, source: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cycle(way: int) -> None:
        viewer = receiver(channel="control" if way % 2 else None)
        if way % 5 == 4:
            peer = await answer_offer(await viewer.offer(), broadcast)
        else:
            peer = await viewer.join(broadcast)
        if way % 5 < 3:
            await viewer.until(lambda: viewer.packets["video"])
        if way % 5 == 2:
            await viewer.pc.close()
            await asyncio.wait_for(peer.closed.wait(), 20)
        await peer.close()
        await viewer.pc.close()

    await cycle(0)
    await asyncio.sleep(0.1)
    before = census()
    for way in range(50):
        await cycle(way)
    deadline = time.monotonic() + 20
    while any(now > then for now, then in zip(census(), before, strict=True)):
        assert time.monotonic() < deadline, (before, census(), asyncio.all_tasks())
        await asyncio.sleep(0.05)
