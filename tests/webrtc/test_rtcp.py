"""Packets sent once more carry the instant of that."""

from types import SimpleNamespace
from typing import Any

from aiortc import RTCRtpSender
from aiortc.rtp import RtpPacket

from onbeat.webrtc.rtcp import HISTORY, hear_repairs

LONG_AGO = 1


async def sent_again(packet: RtpPacket, number: int) -> tuple[int, int]:
    """Datagrams that leave when the receiver misses packet `number` and `packet` is kept, and calls
    for a keyframe."""
    datagrams: list[bytes] = []
    lost: list[int] = []

    async def send(data: bytes) -> None:
        datagrams.append(data)

    transport: Any = SimpleNamespace(state="connected", _send_rtp=send)
    sender = RTCRtpSender("video", transport)
    getattr(sender, HISTORY)[packet.sequence_number] = packet
    hear_repairs(sender, lambda: lost.append(number))
    await sender._retransmit(number)
    return len(datagrams), len(lost)


async def test_a_repair_carries_the_instant_at_which_it_is_sent() -> None:
    packet = RtpPacket(payload_type=96, sequence_number=5, timestamp=9, payload=b"x")
    packet.extensions.abs_send_time = LONG_AGO
    assert await sent_again(packet, 5) == (1, 0)
    assert packet.extensions.abs_send_time not in (None, LONG_AGO)


async def test_for_a_packet_that_is_not_kept_any_more_there_is_a_keyframe() -> None:
    packet = RtpPacket(payload_type=96, sequence_number=5, timestamp=9, payload=b"x")
    assert await sent_again(packet, 6) == (0, 1)
