"""A live viewer without eyes: a WHEP player that notes when whole frames come and decodes nothing.

One connection of aiortc each; its receivers still report as a browser's would, so that the server
rates the link. What it is not: the figures (seen.py) or when it comes and goes (run.py).
"""

import asyncio
import time
from statistics import median
from typing import Any

import aiortc.rtcrtpreceiver
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.rtp import RtcpSrPacket, RtpPacket

from onbeat.client.loopback import use_loopback
from onbeat.server.load.http import RefusedError, Server
from onbeat.server.load.seen import AUDIO_CLOCK, VIDEO_CLOCK, Arrival, Seen

CONNECT_SECONDS = 15.0
SOUND_SECONDS = 0.02
RATES = {"video": VIDEO_CLOCK, "audio": AUDIO_CLOCK}
KEPT_LAGS = 200


class NoDecoder:
    """Pictures are counted, not looked at."""

    def decode(self, encoded_frame: object) -> list[object]:
        return []


def decode_nothing() -> None:
    """From now on no receiver of this process decodes."""
    vars(aiortc.rtcrtpreceiver)["get_decoder"] = lambda codec: NoDecoder()


class Watcher:
    """One connection. `seen` is filled while it lives."""

    def __init__(self, seen: Seen, audio: bool) -> None:
        self.seen = seen
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._first: dict[str, int] = {}
        self._newest = -1.0
        self._clocks: dict[str, tuple[float, int]] = {}
        self._lags: dict[str, list[float]] = {"audio": [], "video": []}
        for kind in ("audio", "video") if audio else ("video",):
            self._listen(kind)
        use_loopback(self._pc)

    def _listen(self, kind: str) -> None:
        receiver = self._pc.addTransceiver(kind, direction="recvonly").receiver
        take, hear = receiver._handle_rtp_packet, receiver._handle_rtcp_packet

        async def taken(packet: RtpPacket, arrival_time_ms: int) -> None:
            self._packet(kind, packet, time.monotonic())
            await take(packet, arrival_time_ms)

        async def heard(packet: Any) -> None:
            if isinstance(packet, RtcpSrPacket) and packet.sender_info.ntp_timestamp:
                info = packet.sender_info
                self._clocks[kind] = (info.ntp_timestamp / 2**32, info.rtp_timestamp)
            await hear(packet)

        receiver._handle_rtp_packet = taken  # type: ignore[method-assign]
        receiver._handle_rtcp_packet = heard  # type: ignore[method-assign]

    def _packet(self, kind: str, packet: RtpPacket, now: float) -> None:
        """A last packet makes a frame; each packet of sound is 20 ms of it."""
        first = self._first.setdefault(kind, packet.timestamp)
        media = _signed(packet.timestamp - first) / RATES[kind]
        self._note_lag(kind, packet.timestamp, now)
        if kind == "audio":
            self.seen.sounds += SOUND_SECONDS
        elif packet.marker and media > self._newest and packet.payload:
            self._newest = media
            self.seen.frames.append(Arrival(now, media))

    def _note_lag(self, kind: str, stamp: int, now: float) -> None:
        if kind in self._clocks:
            at, reference = self._clocks[kind]
            lags = self._lags[kind]
            lags.append(now - at - _signed(stamp - reference) / RATES[kind])
            del lags[:-KEPT_LAGS]

    async def watch(self, server: Server, path: str, seconds: float, end: float) -> None:
        """Joins, watches for `seconds` or until the instant `end`, leaves."""
        seen = self.seen
        try:
            await self._pc.setLocalDescription(await self._pc.createOffer())
            seen.offered = time.monotonic()
            sdp = self._pc.localDescription.sdp
            answer, location = await asyncio.to_thread(server.offer, path, sdp)
            await self._pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
            await self._connected()
            seen.connected = time.monotonic()
            await asyncio.sleep(max(0.0, min(seconds, end - time.monotonic())))
            await asyncio.to_thread(server.delete, location)
        finally:
            seen.ended = time.monotonic()
            seen.skew = self._skew()
            await self._pc.close()

    async def _connected(self) -> None:
        """Raises TimeoutError."""
        async with asyncio.timeout(CONNECT_SECONDS):
            while self._pc.connectionState != "connected":
                await asyncio.sleep(0.005)

    def _skew(self) -> float | None:
        picture, sound = self._lags["video"], self._lags["audio"]
        return median(picture) - median(sound) if picture and sound else None


async def visit(
    server: Server, body: dict[str, Any], *, seconds: float, end: float, audio: bool
) -> Seen:
    """Asks for a session, watches it and ends it. Every refusal is part of the answer."""
    seen = Seen(asked=time.monotonic())
    try:
        made = await asyncio.to_thread(server.post, "/v1/sessions", body)
        seen.accepted = time.monotonic()
        await Watcher(seen, audio).watch(server, made["whep_url"], seconds, end)
        await asyncio.to_thread(server.delete, f"/v1/sessions/{made['id']}")
    except RefusedError as error:
        seen.refused = error.code
    except (OSError, TimeoutError, ConnectionError) as error:
        seen.refused = type(error).__name__
    return seen


def _signed(ticks: int) -> int:
    """A difference of 32 bit time stamps."""
    return (ticks + 2**31) % 2**32 - 2**31
