"""Which addresses are bound and whose datagrams come in. Holds the private names relied upon."""

import asyncio
import inspect
import socket
from typing import Any

import aioice.ice
import aiortc.rtcdtlstransport
import pytest
from aiortc import RTCRtpSender

from onbeat.webrtc.ice import host_addresses
from onbeat.webrtc.settings import PeerSettings


def test_the_private_names_that_are_relied_upon_exist() -> None:
    connection = inspect.getsource(aioice.ice.Connection)
    for name in ("_protocols", "_queue", "_check_list", "get_component_candidates"):
        assert f"self.{name}" in connection, name
    datagram = inspect.signature(aioice.ice.StunProtocol.datagram_received)
    assert list(datagram.parameters) == ["self", "data", "addr"]
    gather = inspect.signature(aioice.ice.Connection.get_component_candidates)
    assert list(gather.parameters) == ["self", "component", "addresses", "timeout"]
    transport = inspect.getsource(aiortc.rtcdtlstransport.RTCDtlsTransport)
    assert "self._handle_rtcp_data(data)" in transport
    assert "recipient._handle_rtcp_packet(packet)" in transport
    assert "await self._send_rtcp(packets)" in inspect.getsource(RTCRtpSender)
    handle = inspect.signature(RTCRtpSender._handle_rtcp_packet)
    assert list(handle.parameters) == ["self", "packet"]


def test_loopback_is_used_where_there_is_nothing_else(monkeypatch: Any) -> None:
    monkeypatch.setattr("onbeat.webrtc.ice.get_host_addresses", lambda **_: [])
    assert host_addresses(None, 4) == ["127.0.0.1"]


def test_all_addresses_are_used_ipv4_first_up_to_the_limit(monkeypatch: Any) -> None:
    found = ["fd00::1", "10.0.0.1", "10.0.0.2"]
    monkeypatch.setattr("onbeat.webrtc.ice.get_host_addresses", lambda **_: list(found))
    assert host_addresses(None, 2) == ["10.0.0.1", "10.0.0.2"]
    assert host_addresses(("192.0.2.9",), 2) == ["192.0.2.9"]


async def test_a_machine_with_loopback_alone_can_watch(
    broadcast: Any, source: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda **_: ["127.0.0.1"])
    monkeypatch.setattr("onbeat.webrtc.ice.get_host_addresses", lambda **_: [])
    viewer = receiver()
    peer = await viewer.join(broadcast)
    assert "127.0.0.1" in peer.answer
    await viewer.until(lambda: viewer.packets["video"])


async def test_a_chosen_address_alone_is_offered(broadcast: Any, receiver: Any) -> None:
    peer = await receiver().join(broadcast, PeerSettings(host_addresses=("127.0.0.1",)))
    candidates = [line for line in peer.answer.splitlines() if line.startswith("a=candidate")]
    assert candidates and all(" 127.0.0.1 " in line for line in candidates)


async def test_no_outside_server_is_asked(broadcast: Any, receiver: Any) -> None:
    peer = await receiver().join(broadcast)
    for connection in peer._connections():
        assert connection.stun_server is None and connection.turn_server is None
    assert "typ srflx" not in peer.answer and "a=end-of-candidates" in peer.answer


async def test_hidden_addresses_do_not_slow_the_join(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    """As Chrome offers: an mDNS name only. The pair is found from the receiver's own checks."""
    viewer = receiver()
    plain = viewer.offer

    async def offer() -> str:
        lines = (await plain()).splitlines()
        kept = [line for line in lines if not line.startswith("a=candidate")]
        return "\r\n".join([*kept, "a=candidate:1 1 udp 1 7d1c.local 50000 typ host"]) + "\r\n"

    viewer.offer = offer
    peer = await viewer.join(broadcast)
    await viewer.until(lambda: viewer.packets["video"])
    assert peer.stats()["first_frame_ms"] < 10_000  # 100 on a quiet machine


async def test_datagrams_of_strangers_do_not_reach_the_connection(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    viewer = receiver()
    peer = await viewer.join(broadcast)
    await viewer.until(lambda: viewer.packets["video"])
    connection = next(iter(peer._connections()))
    before = connection._queue.qsize()
    loop_reads = peer.stats()["heard_ms_ago"]
    local = connection._protocols[0].local_candidate
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for _ in range(200):
            stranger.sendto(b"\x16\xfe\xfd" + bytes(60), (local.host, local.port))
    received = 0
    plain = connection.data_received

    def count(data: bytes, component: int) -> None:
        nonlocal received
        received += data[:3] == b"\x16\xfe\xfd"
        plain(data, component)

    connection.data_received = count
    await asyncio.sleep(0.2)
    assert received == 0 and connection._queue.qsize() <= before + 5
    assert peer.state == "connected" and loop_reads is not None
