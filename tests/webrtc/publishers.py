"""Publishers in the same process: aiortc sending pictures and a tone, and a sink that keeps all."""

import asyncio
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import av
import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
)

from onbeat.webrtc.broadcast import Broadcast
from onbeat.webrtc.ingest import InputFrame, InputSound
from onbeat.webrtc.peer import Peer, answer_offer
from onbeat.webrtc.settings import PeerSettings


class Sink:
    """Keeps what comes, for tests."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.frames: list[InputFrame] = []
        self.sounds: list[InputSound] = []

    def started(self) -> None:
        self.events.append("started")

    def video(self, frame: InputFrame) -> None:
        self.frames.append(frame)

    def sound(self, sound: InputSound) -> None:
        self.sounds.append(sound)

    def ended(self, reason: str) -> None:
        self.events.append(f"ended: {reason}")


class Pictures(MediaStreamTrack):
    """Grey pictures at `fps`: each is `brightness(number)` all over."""

    kind = "video"

    def __init__(self, brightness: Callable[[int], int], size: tuple[int, int], fps: int) -> None:
        super().__init__()
        self._brightness, self.size, self._fps = brightness, size, fps
        self.number, self._began = -1, time.monotonic()

    async def recv(self) -> av.VideoFrame:
        self.number += 1
        wait = self._began + self.number / self._fps - time.monotonic()
        await asyncio.sleep(max(0.0, wait))
        width, height = self.size
        grey = np.full((height, width, 3), self._brightness(self.number), np.uint8)
        frame = av.VideoFrame.from_ndarray(grey, format="rgb24")
        frame.pts, frame.time_base = self.number * 90_000 // self._fps, Fraction(1, 90_000)
        return frame


class Tone(MediaStreamTrack):
    """440 Hz in pieces of 20 ms."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.number, self._began = -1, time.monotonic()

    async def recv(self) -> av.AudioFrame:
        self.number += 1
        await asyncio.sleep(max(0.0, self._began + self.number / 50 - time.monotonic()))
        times = (self.number * 960 + np.arange(960)) / 48_000
        wave = (8_000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(wave.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = (
            48_000,
            self.number * 960,
            Fraction(1, 48_000),
        )
        return frame


class Publisher:
    """One client. It sends `tracks`, and receives as well if `receives`."""

    def __init__(self, tracks: list[MediaStreamTrack], codec: str, receives: bool = False) -> None:
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.peer: Peer | None = None
        for track in tracks:
            sender = self.pc.addTrack(track)
            transceiver = next(t for t in self.pc.getTransceivers() if t.sender is sender)
            transceiver.direction = "sendrecv" if receives else "sendonly"
            if track.kind == "video":
                known = RTCRtpSender.getCapabilities("video").codecs
                transceiver.setCodecPreferences([c for c in known if c.name in (codec, "rtx")])

    async def offer(self) -> str:
        await self.pc.setLocalDescription(await self.pc.createOffer())
        return str(self.pc.localDescription.sdp)

    async def publish(
        self, broadcast: Broadcast, sink: Sink, settings: PeerSettings | None = None, **more: Any
    ) -> Peer:
        more = {"role": "publish"} | more
        offer = await self.offer()
        self.peer = await answer_offer(offer, broadcast, settings=settings, sink=sink, **more)
        await self.pc.setRemoteDescription(RTCSessionDescription(self.peer.answer, "answer"))
        return self.peer


async def until(met: Callable[[], object], timeout: float = 20.0) -> None:
    deadline = time.monotonic() + timeout
    while not met():
        assert time.monotonic() < deadline, "not met in time"
        await asyncio.sleep(0.01)
