"""A thread that decodes one received stream: a short queue in, a shorter one out, oldest given up.

Video that waits too long is given up as a whole, up to the next key frame, so that the delay is
bounded and no picture is broken. What it is not: RTP (assembly.py), or what frames are used for.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import av

from onbeat.webrtc.assembly import EncodedFrame, is_key_frame

logger = logging.getLogger(__name__)

WAITING = {"video": 8, "audio": 50}
"""Encoded frames that wait to be decoded: a quarter of a second of pictures, a second of sound."""
READY = {"video": 4, "audio": 50}
"""Decoded frames that wait for the event loop."""
SOUND_RATE = 48_000
MAX_PIXELS = 2048 * 2048
DECODERS = {"VP8": "libvpx", "H264": "h264", "opus": "libopus"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """`pixel_aspect`: width to height of a pixel, 1 for sound and where it is not stated."""

    frame: av.VideoFrame | av.AudioFrame
    timestamp: int
    arrived_at: float
    pixel_aspect: Fraction


class DecoderThread:
    """One received stream. `on_frame` and `on_picture_lost` are called on the event loop."""

    def __init__(
        self,
        kind: Literal["audio", "video"],
        codecs: dict[int, str],
        on_frame: Callable[[Decoded], None],
        on_picture_lost: Callable[[], None],
    ) -> None:
        """codecs: the codec's name for each payload type."""
        self._kind, self._codecs = kind, codecs
        self._on_frame, self._on_picture_lost = on_frame, on_picture_lost
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[EncodedFrame] = deque()
        self._ready: deque[Decoded] = deque(maxlen=READY[kind])
        self._wake = threading.Condition()
        self._ended = False
        self._needs_key = kind == "video"
        self._codec = ""
        self._context: av.VideoCodecContext | av.AudioCodecContext | None = None
        self.decoded = self.dropped = self.failed = 0
        self._thread = threading.Thread(target=self._run, name=f"decode-{kind}", daemon=True)
        self._thread.start()

    # ---- on the event loop -----------------------------------------------------------------------

    def put(self, frame: EncodedFrame) -> None:
        """Never blocks."""
        with self._wake:
            if len(self._waiting) >= WAITING[self._kind]:
                self._give_up()
            self._waiting.append(frame)
            self._wake.notify()

    def _give_up(self) -> None:
        """Sound loses its oldest; pictures all, as each needs the one before."""
        count = 1 if self._kind == "audio" else len(self._waiting)
        for _ in range(count):
            self._waiting.popleft()
        self.dropped += count
        if self._kind == "video":
            self._needs_key = True

    def close(self) -> None:
        """Ends the thread soon, without waiting for it. Idempotent."""
        with self._wake:
            self._ended = True
            self._waiting.clear()
            self._wake.notify()

    def _drain(self) -> None:
        while self._ready and not self._ended:
            self._on_frame(self._ready.popleft())

    # ---- on the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting and not self._ended:
                    self._wake.wait()
                if self._ended:
                    return
                frame = self._waiting.popleft()
                usable = self._usable(frame)
            if not usable:
                self._call(self._on_picture_lost)
            else:
                self._decode(frame)

    def _usable(self, frame: EncodedFrame) -> bool:
        """Whether a decoder that has seen what came before can take it."""
        if self._kind == "audio":
            return True
        self._needs_key |= frame.after_gap
        if self._needs_key and not is_key_frame(self._codecs[frame.payload_type], frame.data):
            self.dropped += 1
            return False
        self._needs_key = False
        return True

    def _decode(self, frame: EncodedFrame) -> None:
        codec = self._codecs[frame.payload_type]
        if self._context is None or codec != self._codec:
            self._codec, self._context = codec, _open(codec)
        packet = av.Packet(frame.data)
        packet.pts = frame.timestamp
        try:
            made = self._context.decode(packet)
        except av.FFmpegError as error:
            self._fail(error)
            return
        for each in made:
            self._deliver(each, frame)

    def _fail(self, error: av.FFmpegError) -> None:
        self.failed += 1
        logger.info("a received %s frame could not be decoded: %s", self._codec, error)
        if self._kind == "video":
            with self._wake:
                self._needs_key = True
            self._call(self._on_picture_lost)

    def _deliver(self, made: av.VideoFrame | av.AudioFrame, frame: EncodedFrame) -> None:
        self.decoded += 1
        aspect = getattr(self._context, "sample_aspect_ratio", None)
        timestamp = frame.timestamp if made.pts is None else made.pts
        if len(self._ready) == self._ready.maxlen:
            self.dropped += 1
        self._ready.append(
            Decoded(
                frame=made,
                timestamp=timestamp,
                arrived_at=frame.arrived_at,
                pixel_aspect=aspect or Fraction(1),
            )
        )
        self._call(self._drain)

    def _call(self, what: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)


def _open(codec: str) -> av.VideoCodecContext | av.AudioCodecContext:
    """One thread, no reordering delay, and no memory for pictures larger than MAX_PIXELS."""
    context = av.CodecContext.create(DECODERS[codec], "r")
    assert isinstance(context, av.VideoCodecContext | av.AudioCodecContext)
    if isinstance(context, av.VideoCodecContext):
        context.thread_count = 1
        context.options = {"max_pixels": str(MAX_PIXELS), "flags": "low_delay"}
    else:
        context.format, context.layout, context.sample_rate = "s16", "stereo", SOUND_RATE
    return context
