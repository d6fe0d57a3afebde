"""Encoders of one session: VP8, H.264 and Opus over PyAV, and the threads they run in.

They turn arrays into `av.Packet`s and know no viewers, no clock and no network. An encoder is used
by one thread at a time; which thread does not matter.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Literal, Protocol, TypeVar

import av
import numpy as np
import numpy.typing as npt
from av.audio.codeccontext import AudioCodecContext
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType

from onbeat.webrtc.made import Packet
from onbeat.webrtc.nvenc import NVENC, OPTIONS, nvenc_works

T = TypeVar("T")
Picture = npt.NDArray[np.uint8]

VIDEO_CLOCK = 90_000
OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
OPUS_CLOCK = 48_000
OPUS_FRAME = 960
"""Ticks of the 48 kHz RTP clock in one packet: 20 ms, whatever the rate of the samples."""

MIN_BITRATE, LOW_BITRATE, MAX_BITRATE = 150_000, 400_000, 4_000_000


Hardware = Literal["auto", "x264", "nvenc"]


class EncoderPool:
    """The threads of all encoders of this process, as many as cores: never the loop's own pool.

    h264: what encodes H.264; "auto" takes the GPU where it can.
    """

    def __init__(self, workers: int | None = None, h264: Hardware = "auto") -> None:
        self.h264: Hardware = h264
        self.workers = workers or os.cpu_count() or 1
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="onbeat-encode")

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Start `work` in a thread; call it, and use its future, on the event loop's thread."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Wait for the encodes under way and end the threads. Idempotent."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def nominal_bitrate(width: int, height: int, fps: int) -> int:
    """Bits per second for a clean picture of generated video: 0.15 bit per pixel, within bounds."""
    return min(MAX_BITRATE, max(LOW_BITRATE, int(0.15 * width * height * fps)))


class VideoEncoder(Protocol):
    """One shared encode. `bitrate` may be set from any thread and acts on the next picture."""

    bitrate: int

    def prepare(self, width: int, height: int, fps: int) -> None:
        """Open the codec ahead of the first picture: that takes longer than a frame may."""

    def encode(self, picture: Picture, pts: int, fps: int, keyframe: bool) -> list[Packet]:
        """`picture` is I420 [height * 3 // 2, width]; `pts` counts 90 kHz ticks and must rise."""


def _frame(picture: Picture, pts: int, keyframe: bool) -> av.VideoFrame:
    # A new object for each encode: a picture type stays with the frame it was once set on.
    frame = av.VideoFrame.from_ndarray(picture, format="yuv420p")
    frame.pts = pts
    frame.time_base = Fraction(1, VIDEO_CLOCK)
    frame.pict_type = PictureType.I if keyframe else PictureType.NONE
    return frame


def _size(picture: Picture) -> tuple[int, int]:
    return picture.shape[1], picture.shape[0] * 2 // 3


def shrunk(picture: Picture, divisor: int) -> Picture:
    """I420 [height * 3 // 2, width] with sides divided by 1 or 2: the mean of each 2x2 pixels.

    For 2, width must be a multiple of 4 and height of 8, so that the planes stay whole rows.
    """
    if divisor == 1:
        return picture
    width, height = _size(picture)
    assert divisor == 2 and not width % 4 and not height % 8, (divisor, width, height)
    chroma = picture[height:].reshape(height, width // 2)
    luma, both = _halved(picture[:height]), _halved(chroma)
    return np.concatenate([luma, both.reshape(height // 4, width // 2)])


def _halved(plane: Picture) -> Picture:
    wide = plane[0::2].astype(np.uint16) + plane[1::2]
    return ((wide[:, 0::2] + wide[:, 1::2] + 2) >> 2).astype(np.uint8)


def _context(codec: str, size: tuple[int, int], fps: int, bitrate: int) -> VideoCodecContext:
    context = av.CodecContext.create(codec, "w")
    assert isinstance(context, VideoCodecContext)
    context.width, context.height = size
    context.pix_fmt = "yuv420p"
    context.time_base = Fraction(1, VIDEO_CLOCK)
    context.framerate = Fraction(fps, 1)
    context.bit_rate = bitrate
    context.gop_size = 3000
    context.thread_count = 1
    return context


class Vp8Encoder:
    """libvpx in its real-time mode. It cannot change its rate in place: a new rate is a new one."""

    def __init__(self, bitrate: int) -> None:
        self.bitrate = bitrate
        self._context: VideoCodecContext | None = None
        self._built_for = 0

    def prepare(self, width: int, height: int, fps: int) -> None:
        self._opened((width, height), fps)

    def encode(self, picture: Picture, pts: int, fps: int, keyframe: bool) -> list[Packet]:
        return self._opened(_size(picture), fps).encode(_frame(picture, pts, keyframe))

    def _opened(self, size: tuple[int, int], fps: int) -> VideoCodecContext:
        bitrate = self.bitrate
        if self._context is None or bitrate != self._built_for:
            self._context, self._built_for = self._build(size, fps, bitrate), bitrate
        return self._context

    @staticmethod
    def _build(size: tuple[int, int], fps: int, bitrate: int) -> VideoCodecContext:
        context = _context("libvpx", size, fps, bitrate)
        context.qmin, context.qmax = 2, 56
        context.options = {
            "deadline": "realtime",
            "cpu-used": "-6",
            "lag-in-frames": "0",
            "auto-alt-ref": "0",
            "minrate": str(bitrate),
            "maxrate": str(bitrate),
            "bufsize": str(bitrate),
            "max-intra-rate": "600",
            "undershoot-pct": "100",
            "overshoot-pct": "15",
        }
        context.open()
        return context


class H264Encoder:
    """x264 or NVENC, as every browser decodes it; Annex B, SPS and PPS before each IDR.

    The rate moves in place, with x264 below the rate that the encoder was built for.
    """

    def __init__(self, bitrate: int, hardware: Hardware = "x264") -> None:
        self.bitrate = bitrate
        self._hardware: Hardware = hardware
        self._context: VideoCodecContext | None = None
        self._built_for = (0, 0)

    def prepare(self, width: int, height: int, fps: int) -> None:
        self._opened((width, height), fps)

    def encode(self, picture: Picture, pts: int, fps: int, keyframe: bool) -> list[Packet]:
        return self._opened(_size(picture), fps).encode(_frame(picture, pts, keyframe))

    def _opened(self, size: tuple[int, int], fps: int) -> VideoCodecContext:
        bitrate = self.bitrate
        top, built_fps = self._built_for
        on_gpu = self._on_gpu()
        if self._context is None or fps != built_fps or (bitrate > top and not on_gpu):
            build = _nvenc if on_gpu else self._build
            self._context, self._built_for = build(size, fps, bitrate), (bitrate, fps)
        elif self._context.bit_rate != bitrate:
            self._context.bit_rate = bitrate
        return self._context

    def _on_gpu(self) -> bool:
        return self._hardware == "nvenc" or (self._hardware == "auto" and nvenc_works())

    @staticmethod
    def _build(size: tuple[int, int], fps: int, bitrate: int) -> VideoCodecContext:
        context = _context("libx264", size, fps, bitrate)
        context.profile = "Baseline"
        context.options = {
            "preset": "superfast",
            "tune": "zerolatency",
            "forced-idr": "1",
            "maxrate": str(bitrate),
            "bufsize": str(bitrate),
            "x264-params": "repeat-headers=1:annexb=1:scenecut=0:keyint=infinite",
        }
        context.open()
        return context


def _nvenc(size: tuple[int, int], fps: int, bitrate: int) -> VideoCodecContext:
    context = _context(NVENC, size, fps, bitrate)
    context.options = {**OPTIONS, "bufsize": str(bitrate), "profile": "baseline"}
    context.open()
    return context


def video_encoder(codec: str, bitrate: int, h264: Hardware = "x264") -> VideoEncoder:
    """`codec` is "VP8" or "H264"; `h264` says what encodes the latter."""
    if codec not in ("VP8", "H264"):
        raise ValueError(f"codec {codec!r} is not one of H264, VP8")
    return Vp8Encoder(bitrate) if codec == "VP8" else H264Encoder(bitrate, h264)


class OpusEncoder:
    """Mono Opus, one packet per 20 ms. Packets count 48 kHz ticks whatever `sample_rate` is."""

    def __init__(self, sample_rate: int, bitrate: int = 64_000) -> None:
        if sample_rate not in OPUS_RATES:
            raise ValueError(f"sample_rate {sample_rate} is not one of {OPUS_RATES}")
        context = av.CodecContext.create("libopus", "w")
        assert isinstance(context, AudioCodecContext)
        context.format, context.layout = "s16", "mono"
        context.sample_rate, context.bit_rate = sample_rate, bitrate
        context.time_base = Fraction(1, sample_rate)
        context.options = {"application": "audio", "frame_duration": "20"}
        self._context, self._rate, self._count = context, sample_rate, 0

    def encode(self, samples: npt.NDArray[np.int16], pts: int) -> list[Packet]:
        """`samples` is int16 [sample_rate / 50]; `pts` is written into the packet (48 kHz)."""
        assert samples.shape == (self._rate // 50,), samples.shape
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate = self._rate
        frame.time_base = Fraction(1, self._rate)
        frame.pts, self._count = self._count, self._count + samples.shape[0]
        packets = self._context.encode(frame)
        for packet in packets:
            packet.pts, packet.time_base = pts, Fraction(1, OPUS_CLOCK)
        return packets
