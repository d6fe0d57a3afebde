"""Media as a receiver gets it: join, keyframes, one encode for all, sound and picture together."""

import time
from typing import Any

from aiortc.codecs import depayload
from aiortc.rtcrtpparameters import RTCRtpCodecParameters


def pictures(receiver: Any, codec: str) -> list[tuple[int, bytes]]:
    """(RTP time stamp, bytes of the encoded picture) in order of arrival."""
    parameters = RTCRtpCodecParameters(mimeType=f"video/{codec}", clockRate=90_000, payloadType=97)
    found: dict[int, bytes] = {}
    for packet in receiver.packets["video"]:
        data = depayload(parameters, packet.payload)
        found[packet.timestamp] = found.get(packet.timestamp, b"") + data
    return list(found.items())


def is_key(codec: str, data: bytes) -> bool:
    if codec == "VP8":
        return not data[0] & 1  # RFC 6386, 9.1: bit 0 is the inverse key frame flag
    return 5 in nal_types(data)


def nal_types(data: bytes) -> list[int]:
    return [part[0] & 0x1F for part in data.split(b"\0\0\0\1") if part]


async def test_joins_quickly_and_starts_with_sound(broadcast: Any, source: Any, receiver: Any) -> None:
    viewer = receiver()
    started = time.monotonic()
    peer = await viewer.join(broadcast)
    await viewer.until(lambda: viewer.packets["video"] and viewer.packets["audio"])
    assert peer.state == "connected"
    print("joined in", time.monotonic() - started)
    assert time.monotonic() - started < 1.0
