"""Received media on its way in: one publisher's streams, decoded, on one clock, handed to a sink.

Every queue before the sink is bounded and loses its oldest. What it is not: fitting pictures to a
model's size and rate (the sink does), the peer connection (peer.py), or RTP (assembly.py).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

import av
import numpy as np
import numpy.typing as npt
from aiortc import RTCRtpTransceiver
from aiortc.rtp import AnyRtcpPacket, RtcpSrPacket

from onbeat.webrtc.assembly import FrameAssembler
from onbeat.webrtc.decoding import Decoded, DecoderThread
from onbeat.webrtc.encoders import OPUS_CLOCK, VIDEO_CLOCK

JITTER_BUFFER = "_RTCRtpReceiver__jitter_buffer"
NTP_PER_SECOND = 2**32
RATES = {"video": VIDEO_CLOCK, "audio": OPUS_CLOCK}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFrame:
    """A decoded picture as it was sent: any format, any size, and the size may change.

    media_time: seconds on the publisher's clock, which starts near 0 and which its sound shares.
    arrived_at: seconds on the monotonic clock at which its last packet came. rotation: degrees (0,
    90, 180 or 270) to turn the picture clockwise by, so that it stands upright. pixel_aspect: width
    to height of a pixel.
    """

    picture: av.VideoFrame
    media_time: float
    arrived_at: float
    rotation: int
    pixel_aspect: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSound:
    """A piece of sound: int16 [samples, channels], 48 kHz. The times are of its first sample."""

    samples: npt.NDArray[np.int16]
    media_time: float
    arrived_at: float


class InputSink(Protocol):
    """Takes what a publisher sends. Called on the event loop; must not block.

    `started` and `ended` come in pairs, once for each publisher; what a publisher sent before it
    was `started`, or after it `ended`, is not handed over.
    """

    def started(self) -> None: ...

    def video(self, frame: InputFrame) -> None: ...

    def sound(self, sound: InputSound) -> None: ...

    def ended(self, reason: str) -> None: ...


class StreamClock:
    """RTP time stamps of one stream (RFC 3550, 5.1), unwrapped, as seconds since `origin`."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._first: int | None = None
        self._last = 0
        self.offset = 0.0
        self.wall: float | None = None
        """NTP seconds at which the first time stamp was sampled, once a sender report tells."""

    def seconds(self, timestamp: int, arrived: float) -> float:
        """`arrived`: seconds since the publisher's origin; it places the first time stamp."""
        if self._first is None:
            self._first, self.offset = timestamp, arrived
        return self._ticks(timestamp) / self._rate + self.offset

    def hear(self, report: RtcpSrPacket) -> None:
        """A sender report pairs a time stamp with wall time."""
        if self._first is not None and report.sender_info.ntp_timestamp:
            info = report.sender_info
            ahead = (info.rtp_timestamp - self._first - self._last + 2**31) % 2**32 - 2**31
            self.wall = info.ntp_timestamp / NTP_PER_SECOND - (self._last + ahead) / self._rate

    def _ticks(self, timestamp: int) -> int:
        """Since the first time stamp; frames that are reordered may step back."""
        assert self._first is not None
        step = (timestamp - self._first - self._last + 2**31) % 2**32 - 2**31
        self._last += step
        return self._last


class Ingest:
    """One publisher. Made on the event loop; `attach` its transceivers, `close` it once."""

    def __init__(self, sink: InputSink, clock: Callable[[], float] = time.monotonic) -> None:
        self._sink, self._clock = sink, clock
        self._clocks: dict[str, StreamClock] = {}
        self._decoders: dict[str, DecoderThread] = {}
        self._assemblers: dict[str, FrameAssembler] = {}
        self._origin: float | None = None
        self._started = self._closed = False
        self.frames = self.sounds = 0
        self.size: tuple[int, int] | None = None

    @property
    def last_packet_at(self) -> float | None:
        """Monotonic seconds; None before the first packet."""
        times = [a.last_at for a in self._assemblers.values() if a.last_at is not None]
        return max(times, default=None)

    def attach(self, transceiver: RTCRtpTransceiver) -> None:
        """Take what this transceiver receives, instead of aiortc's unbounded queues.

        Call it when the remote description is set, before the first packet.
        """
        kind: Literal["audio", "video"] = "video" if transceiver.kind == "video" else "audio"
        codecs = {c.payloadType or 0: c.name for c in transceiver._codecs if c.name != "rtx"}
        receiver = transceiver.receiver
        assert hasattr(receiver, JITTER_BUFFER), "aiortc has no jitter buffer of this name"
        clock = self._clocks[kind] = StreamClock(RATES[kind])
        assembler: FrameAssembler
        decoder = DecoderThread(
            kind, codecs, lambda made: self._take(kind, made), lambda: assembler.lose_picture()
        )
        assembler = FrameAssembler(kind=kind, deliver=decoder.put, clock=self._clock)
        self._decoders[kind], self._assemblers[kind] = decoder, assembler
        setattr(receiver, JITTER_BUFFER, assembler)
        handle = receiver._handle_rtcp_packet

        async def heard(packet: AnyRtcpPacket) -> None:
            if isinstance(packet, RtcpSrPacket):
                clock.hear(packet)
                self._align()
            await handle(packet)

        receiver._handle_rtcp_packet = heard  # type: ignore[method-assign]

    def start(self) -> None:
        """The publisher is connected."""
        if not self._started and not self._closed:
            self._started = True
            self._sink.started()

    def close(self, reason: str) -> None:
        """Nothing is handed over any more. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for decoder in self._decoders.values():
            decoder.close()
        if self._started:
            self._sink.ended(reason)

    def stats(self) -> dict[str, Any]:
        decoders = self._decoders.values()
        return {
            "frames": self.frames,
            "sounds": self.sounds,
            "size": self.size,
            "dropped": sum(decoder.dropped for decoder in decoders),
            "failed": sum(decoder.failed for decoder in decoders),
            "gaps": sum(assembler.gaps for assembler in self._assemblers.values()),
        }

    def _take(self, kind: str, made: Decoded) -> None:
        if self._closed:
            return
        self.start()
        if self._origin is None:
            self._origin = made.arrived_at
        clock = self._clocks[kind]
        at = clock.seconds(made.timestamp, made.arrived_at - self._origin)
        if isinstance(made.frame, av.VideoFrame):
            self._show(made.frame, made, at)
        else:
            self.sounds += 1
            self._sink.sound(_sound(made.frame, at, made.arrived_at))

    def _show(self, picture: av.VideoFrame, made: Decoded, at: float) -> None:
        self.frames += 1
        self.size = (picture.width, picture.height)
        self._sink.video(
            InputFrame(
                picture=picture,
                media_time=at,
                arrived_at=made.arrived_at,
                rotation=-90 * round(picture.rotation / 90) % 360,
                pixel_aspect=made.pixel_aspect,
            )
        )

    def _align(self) -> None:
        """Sound is moved to where the sender's reports put it beside the picture."""
        video, audio = self._clocks.get("video"), self._clocks.get("audio")
        if video and audio and video.wall is not None and audio.wall is not None:
            audio.offset = video.offset + audio.wall - video.wall


def _sound(frame: av.AudioFrame, at: float, arrived_at: float) -> InputSound:
    packed = frame.to_ndarray().astype(np.int16, copy=False)
    samples = packed.reshape(-1, len(frame.layout.channels))
    return InputSound(samples=samples, media_time=at, arrived_at=arrived_at)
