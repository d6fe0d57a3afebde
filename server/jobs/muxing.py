"""Encoded packets into a file that is whole at every instant, and that file made neat at the end.

H.264 and Opus become fragmented MP4, VP8 and Opus WebM; nothing is encoded again. A fragment of
at most a second is handed to the system at once, so that a killed process loses no more than that;
it is forced to disk every SYNC_SECONDS, so that a power cut loses no more than those. What it is
not: the threads and limits of a recording (recording.py).
"""

import io
import os
import time
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias

import av
from av.container import InputContainer

Packet: TypeAlias = "av.Packet[Any]"
Container = Literal["mp4", "webm"]
CONTAINER: dict[str, Container] = {"H264": "mp4", "VP8": "webm"}
"""By video codec. Browsers play neither VP8 in MP4 nor H.264 in WebM."""

VIDEO_CLOCK, SOUND_CLOCK, SOUND_TICKS = 90_000, 48_000, 960
PRE_SKIP = 312
"""Samples by which libopus looks ahead: a packet holds the sound of so much earlier (RFC 7845)."""
SYNC_SECONDS = 5.0
COMMON = {"flush_packets": "1", "max_interleave_delta": "500000"}
GROWING: dict[Container, dict[str, str]] = {
    "mp4": {"movflags": "empty_moov+default_base_moof", "frag_duration": "1000000"},
    "webm": {"live": "1", "cluster_time_limit": "1000"},
}
NEAT: dict[Container, dict[str, str]] = {"mp4": {"movflags": "+faststart"}, "webm": {}}


class NothingRecorded(ValueError):
    """A file without a picture."""


class GrowingFile:
    """A file for `av.open` that is only appended to, and written through."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        self._synced_at = time.monotonic()
        self.size = 0
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
            self.size += len(data)
            self._sync()
        except OSError as error:
            self.error = error
            raise
        return len(data)

    def _sync(self) -> None:
        now = time.monotonic()
        if now - self._synced_at >= SYNC_SECONDS:
            self._synced_at = now
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.fsync(self._descriptor)
        os.close(self._descriptor)


class Muxer:
    """One file. It begins with the first picture, a key frame, at time zero; sound from then on.

    pts: 90 kHz ticks of pictures, 48 kHz ticks of sound, from one origin. Raises OSError if the
    disk does not take more.
    """

    def __init__(
        self, path: Path, *, codec: str, size: tuple[int, int], fps: int, audio: bool
    ) -> None:
        self._file = GrowingFile(path)
        self._codec, self._dimensions, self._fps, self._audio = codec, size, fps, audio
        self._out: Any = None
        self._video: Any = None
        self._sound: Any = None
        self._origin = 0
        self._waiting: Packet | None = None
        self.frames = 0
        self.seconds = 0.0

    @property
    def size(self) -> int:
        return self._file.size

    def video(self, data: bytes, pts: int, *, keyframe: bool) -> None:
        """A picture is written once the next one tells how long it is shown."""
        if self._out is None:
            self._begin(data, pts)
        packet: Packet = av.Packet(data)
        packet.pts = packet.dts = pts - self._origin
        packet.time_base, packet.is_keyframe = Fraction(1, VIDEO_CLOCK), keyframe
        packet.stream = self._video
        self._write_waiting(pts - self._origin)
        self._waiting = packet
        self.frames += 1
        self.seconds = (pts - self._origin) / VIDEO_CLOCK + 1 / self._fps

    def sound(self, data: bytes, pts: int) -> None:
        if self._sound is None:
            return
        at = pts - round(self._origin * SOUND_CLOCK / VIDEO_CLOCK) - PRE_SKIP
        if at < 0:
            return
        packet: Packet = av.Packet(data)
        packet.pts = packet.dts = at
        packet.duration, packet.time_base = SOUND_TICKS, Fraction(1, SOUND_CLOCK)
        packet.stream, packet.is_keyframe = self._sound, True
        self._write(packet)

    def close(self) -> None:
        """Ends the file. Raises OSError; the file is closed then, too."""
        try:
            if self._out is not None and self._file.error is None:
                self._write_waiting(round(self.seconds * VIDEO_CLOCK))
                self._out.close()
            if self._file.error is not None:
                raise self._file.error
        finally:
            self._file.close()

    def _begin(self, data: bytes, pts: int) -> None:
        kind = CONTAINER[self._codec]
        self._origin = pts
        self._out = av.open(self._file, "w", format=kind, options=COMMON | GROWING[kind])
        with _probe(self._codec, data, self._dimensions) as probe:
            self._video = self._out.add_stream_from_template(probe.streams.video[0])
            self._video.time_base = Fraction(1, VIDEO_CLOCK)
            if self._audio:
                self._sound = self._out.add_stream("libopus", rate=SOUND_CLOCK, layout="mono")
            self._out.start_encoding()

    def _write_waiting(self, until: int) -> None:
        if self._waiting is not None:
            assert self._waiting.pts is not None
            self._waiting.duration = until - self._waiting.pts
            self._write(self._waiting)
            self._waiting = None

    def _write(self, packet: Packet) -> None:
        try:
            self._out.mux_one(packet)
        except av.error.FFmpegError:
            if self._file.error is None:
                raise
        if self._file.error is not None:
            raise self._file.error


def _probe(codec: str, data: bytes, size: tuple[int, int]) -> Any:
    """The first picture as a stream whose parameters (H.264: SPS and PPS) a container can copy."""
    if codec == "H264":
        return av.open(io.BytesIO(data), format="h264")
    width, height = (side.to_bytes(2, "little") for side in size)
    clock = VIDEO_CLOCK.to_bytes(4, "little") + (1).to_bytes(4, "little")
    head = b"DKIF\x00\x00\x20\x00VP80" + width + height + clock + (1).to_bytes(4, "little")
    frame = len(data).to_bytes(4, "little") + bytes(8) + data
    return av.open(io.BytesIO(head + bytes(4) + frame), format="ivf")


def made_neat(source: Path, target: Path, kind: Container, fps: int) -> tuple[int, float]:
    """Copies what is whole of a file that may have been cut short into one with its length and an
    index; the pictures in it and its seconds. Raises NothingRecorded, also for a file that was cut
    within its head; OSError if it does not fit.
    """
    frames, end = 0, 0.0
    try:
        with (
            _opened(source) as given,
            av.open(str(target), "w", format=kind, options=NEAT[kind]) as out,
        ):
            streams = {s.index: out.add_stream_from_template(s) for s in given.streams}
            for packet in _whole(given):
                if packet.stream.type == "video":
                    frames += 1
                    end = max(end, _end(packet, fps))
                packet.stream = streams[packet.stream_index]
                out.mux_one(packet)
    except (av.error.FFmpegError, ValueError) as error:  # ValueError: of PyAV, a track without data
        if isinstance(error, OSError):
            raise
        raise NothingRecorded(f"{source.name} holds no picture") from error
    if not frames:
        raise NothingRecorded(f"{source.name} holds no picture")
    return frames, end


def _opened(source: Path) -> InputContainer:
    """What FFmpeg says of a head that was cut depends on where: the end, bad data, or an error of
    reading."""
    try:
        return av.open(str(source))
    except (av.error.FileNotFoundError, av.error.PermissionError):
        raise
    except av.error.FFmpegError as error:
        raise NothingRecorded(f"{source.name} holds no picture") from error


def _whole(given: InputContainer) -> Any:
    """Packets up to the end, or to where the file was cut."""
    packets = given.demux()
    while True:
        try:
            packet = next(packets)
        except (StopIteration, av.error.InvalidDataError, av.error.EOFError):
            return
        if packet.dts is not None and not packet.is_corrupt:
            yield packet


def _end(packet: Packet, fps: int) -> float:
    """When the picture is over; WebM does not say how long one is shown."""
    assert packet.pts is not None
    if not packet.duration:
        packet.duration = round(1 / (fps * packet.time_base))
    return float((packet.pts + packet.duration) * packet.time_base)
