"""Media through the relay of the benchmarks: losses and a cut are outlived, others feel nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiortc import RTCSessionDescription

from benchmarks.live.relay import Relay
from onbeat.webrtc.peer import answer_offer
from onbeat.webrtc.settings import PeerSettings


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    relay = Relay()
    yield relay
    relay.close()


async def through(relay: Relay, viewer: Any, broadcast: Any) -> None:
    settings = PeerSettings(host_addresses=("127.0.0.1",))
    offer = "\r\n".join(
        line for line in (await viewer.offer()).splitlines() if "a=candidate" not in line
    )
    viewer.peer = await answer_offer(offer + "\r\n", broadcast, settings=settings)
    answer = await relay.open(viewer.peer.answer)
    await viewer.pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    await viewer.until(lambda: len(viewer.packets["video"]) > 5, 20)


async def test_a_lossy_and_then_cut_path_recovers(
    broadcast: Any, source: Any, receiver: Any, relay: Relay
) -> None:
    worn, clean = receiver(), receiver()
    await clean.join(broadcast)
    await through(relay, worn, broadcast)
    relay.loss = 0.2
    count = len(worn.packets["video"])
    await worn.until(lambda: len(worn.packets["video"]) > count + 20 and relay.dropped > 5, 20)
    relay.loss, relay.cut = 0.0, True
    await asyncio.sleep(1.0)
    relay.cut = False
    count = len(worn.packets["video"])
    await worn.until(lambda: len(worn.packets["video"]) > count + 10, 20)
    assert worn.peer.state == "connected"
    numbers = [packet.sequence for packet in clean.packets["video"]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "the others felt it"
