"""A receiver in the same process: aiortc without decoding, keeping the RTP it got."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from aiortc import (
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCRtpReceiver,
    RTCSessionDescription,
)
from aiortc.rtp import RtcpPsfbPacket, RtcpSrPacket, RtpPacket, pack_remb_fci

from onbeat.webrtc.broadcast import Broadcast
from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.peer import Peer, answer_offer
from onbeat.webrtc.settings import PeerSettings


class NoDecoder:
    """Decodes nothing: the tests read packets."""

    def decode(self, encoded_frame: object) -> list[object]:
        return []


@dataclass(frozen=True, slots=True)
class Arrived:
    at: float
    timestamp: int
    sequence: int
    payload: bytes


class Receiver:
    """One client. `media` names the m-lines to receive, e.g. ("audio", "video")."""

    def __init__(self, media: tuple[str, ...], codec: str, channel: str | None) -> None:
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.packets: dict[str, list[Arrived]] = {"audio": [], "video": []}
        self.clocks: dict[str, list[tuple[int, int]]] = {"audio": [], "video": []}
        self.peer: Peer | None = None
        self.channel: RTCDataChannel | None = None
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        for kind in media:
            self._add(kind, codec)
        if channel is not None:
            self.channel = self.open_channel(channel)

    def open_channel(self, label: str) -> RTCDataChannel:
        channel = self.pc.createDataChannel(label)
        channel.on("message", self.messages.put_nowait)
        return channel

    def _add(self, kind: str, codec: str) -> None:
        transceiver = self.pc.addTransceiver(kind, direction="recvonly")
        if kind == "video":
            known = RTCRtpReceiver.getCapabilities(kind)
            assert known is not None
            transceiver.setCodecPreferences([c for c in known.codecs if c.name in (codec, "rtx")])
        receiver = transceiver.receiver
        handle, handle_rtcp = receiver._handle_rtp_packet, receiver._handle_rtcp_packet

        async def keep(packet: RtpPacket, arrival_time_ms: int) -> None:
            payload = bytes(packet._data) if hasattr(packet, "_data") else packet.payload
            self.packets[kind].append(
                Arrived(time.monotonic(), packet.timestamp, packet.sequence_number, payload)
            )
            await handle(packet, arrival_time_ms)

        async def keep_clock(packet: Any) -> None:
            if isinstance(packet, RtcpSrPacket) and packet.sender_info.ntp_timestamp:
                info = packet.sender_info
                self.clocks[kind].append((info.ntp_timestamp, info.rtp_timestamp))
            await handle_rtcp(packet)

        receiver._handle_rtp_packet = keep  # type: ignore[method-assign]
        receiver._handle_rtcp_packet = keep_clock  # type: ignore[method-assign]

    async def offer(self) -> str:
        await self.pc.setLocalDescription(await self.pc.createOffer())
        return self.pc.localDescription.sdp

    async def join(
        self, broadcast: Broadcast, settings: PeerSettings | None = None, **more: Any
    ) -> Peer:
        self.peer = await answer_offer(await self.offer(), broadcast, settings=settings, **more)
        await self.pc.setRemoteDescription(RTCSessionDescription(self.peer.answer, "answer"))
        return self.peer

    async def feedback(self, fmt: int, fci: bytes = b"") -> None:
        """Send a payload-specific RTCP message about the video, as a browser would."""
        receiver = next(r for r in self.pc.getReceivers() if r.track.kind == "video")
        packet = RtcpPsfbPacket(fmt=fmt, ssrc=1, media_ssrc=self.video_ssrc(), fci=fci)
        await receiver.transport._send_rtp(bytes(packet))

    async def estimate(self, bitrate: int) -> None:
        await self.feedback(15, pack_remb_fci(bitrate, [self.video_ssrc()]))

    def video_ssrc(self) -> int:
        assert self.peer is not None
        lines = self.peer.answer.split("m=video")[1].splitlines()
        return next(int(line[7:].split()[0]) for line in lines if line.startswith("a=ssrc:"))

    async def until(self, met: Callable[[], object], timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while not met():
            assert time.monotonic() < deadline, "not met in time"
            await asyncio.sleep(0.005)


class Source:
    """Pushes moving pictures and a tone as chunks of 4 frames, on time, until stopped."""

    def __init__(self, broadcast: Broadcast, lead: float = 0.1) -> None:
        self.broadcast, self.index = broadcast, 0
        self.first_at = time.monotonic() + lead
        self.lead, self.missing = lead, set[int]()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            due = self.first_at + self.index * 0.2
            await asyncio.sleep(max(0.0, due - self.lead - time.monotonic()))
            if self.index not in self.missing:
                self.broadcast.push(make_chunk(self.index, due))
            self.index += 1


def make_chunk(index: int, playout_at: float, *, frames: int = 4, fps: int = 20) -> MediaChunk:
    rows, columns = np.indices((96, 64))
    steps = index * frames + np.arange(frames)[:, None, None]
    pictures = ((rows * 3 + columns * 5 + steps * 7) % 180 + 30).astype(np.uint8)
    times = np.arange(24_000 * frames // fps) / 24_000
    sound = (8_000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)
    return MediaChunk(
        index=index,
        frames=pictures,
        audio=sound,
        fps=fps,
        sample_rate=24_000,
        playout_at=playout_at,
        revision=index,
    )


@pytest.fixture
def chunk() -> Callable[..., MediaChunk]:
    return make_chunk


@pytest.fixture
def pool() -> Iterator[EncoderPool]:
    pool = EncoderPool(2)
    yield pool
    pool.close()


@pytest.fixture
async def broadcast(pool: EncoderPool) -> AsyncIterator[Broadcast]:
    """64x64 at 20 frames a second with 24 kHz sound."""
    broadcast = Broadcast(width=64, height=64, fps=20, sample_rate=24_000, encoders=pool)
    yield broadcast
    broadcast.close()


@pytest.fixture
async def source(broadcast: Broadcast) -> AsyncIterator[Source]:
    source = Source(broadcast)
    yield source
    source.task.cancel()


@pytest.fixture
async def receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Callable[..., Receiver]]:
    """Makes receivers, and closes them and their peers afterwards."""
    monkeypatch.setattr("aiortc.rtcrtpreceiver.get_decoder", lambda codec: NoDecoder())
    made: list[Receiver] = []

    def make(
        media: tuple[str, ...] = ("audio", "video"),
        codec: str = "VP8",
        channel: str | None = None,
    ) -> Receiver:
        made.append(Receiver(media, codec, channel))
        return made[-1]

    yield make
    closing: list[Awaitable[None]] = [r.pc.close() for r in made]
    closing += [r.peer.close() for r in made if r.peer is not None]
    await asyncio.gather(*closing)
