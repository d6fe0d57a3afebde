"""The baseline of the fan-out: aiortc as its examples use it, an encoder for each viewer.

Two tracks of raw frames for each peer connection, paced as aiortc's own examples are.
"""

import asyncio
import time
from fractions import Fraction

import av
import numpy as np
import numpy.typing as npt
from aiortc import (
    RTCConfiguration,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamTrack


class Pictures(MediaStreamTrack):
    """I420 pictures [n, height * 3 // 2, width] by turns, `fps` a second."""

    kind = "video"

    def __init__(self, pictures: npt.NDArray[np.uint8], fps: int) -> None:
        super().__init__()
        self._pictures, self._fps, self._number = pictures, fps, 0
        self._first = time.monotonic()
        self.sent = 0

    async def recv(self) -> av.VideoFrame:
        self._number += 1
        await asyncio.sleep(max(0, self._first + self._number / self._fps - time.monotonic()))
        picture = self._pictures[self._number % len(self._pictures)]
        frame = av.VideoFrame.from_ndarray(picture, format="yuv420p")
        frame.pts, frame.time_base = self._number * 90_000 // self._fps, Fraction(1, 90_000)
        self.sent += 1
        return frame


class Noise(MediaStreamTrack):
    """48 kHz mono noise in 20 ms frames."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._samples = np.random.default_rng(1).integers(-900, 900, (1, 960)).astype(np.int16)
        self._number, self._first = 0, time.monotonic()

    async def recv(self) -> av.AudioFrame:
        self._number += 1
        await asyncio.sleep(max(0, self._first + self._number / 50 - time.monotonic()))
        frame = av.AudioFrame.from_ndarray(self._samples, format="s16", layout="mono")
        frame.sample_rate, frame.pts = 48_000, self._number * 960
        frame.time_base = Fraction(1, 48_000)
        return frame


class StockPeer:
    """One viewer, as in aiortc's examples."""

    def __init__(self, pictures: npt.NDArray[np.uint8], fps: int) -> None:
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.video = Pictures(pictures, fps)
        self.pc.addTrack(Noise())
        self.pc.addTrack(self.video)
        codecs = RTCRtpSender.getCapabilities("video").codecs
        vp8 = [codec for codec in codecs if codec.name in ("VP8", "rtx")]
        self.pc.getTransceivers()[1].setCodecPreferences(vp8)

    async def answer(self, offer: str) -> str:
        await self.pc.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        await self.pc.setLocalDescription(await self.pc.createAnswer())
        return str(self.pc.localDescription.sdp)
