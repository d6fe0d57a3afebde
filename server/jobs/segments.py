"""Pictures in segments of a few seconds, each encoded by itself, and the whole file made of them.

A segment is a closed group of pictures with an encoder of its own, so its bytes depend on nothing
but its pictures, and a job that is interrupted between two segments gives the same file. Sound is
encoded once, at the end, without a seam. What it is not: where files lie (workspace.py).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer, OutputContainer
from av.video.reformatter import ColorRange
from PIL import Image

from onbeat.server.jobs.encode import (
    AUDIO_BITRATE,
    AUDIO_RATE,
    BT601,
    SHEET_SIDE,
    SHEET_WIDTH,
    X264,
    small_picture,
    tags_of,
)
from onbeat.server.jobs.job import JobRequest

SEGMENT_SECONDS = 4.0

Pictures = npt.NDArray[np.uint8]
Sound = npt.NDArray[np.int16]
Check = Callable[[], None]
"""Called now and then in long work; raises what is to end it."""


class SegmentWriter(Protocol):
    """One segment's pictures to one file; without `finish` it is no segment."""

    def write(self, frames: Pictures) -> None:
        """uint8 [f, height * 3 // 2, width], I420."""

    def finish(self) -> None:
        """The file is whole when this returns."""

    def close(self) -> None:
        """Gives everything back. Idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A format of results. `join`: (request, segments, sound by segment, its rate in Hz, target,
    check) -> the whole file; no picture is encoded again, and memory is bounded."""

    suffix: str
    writer: Callable[[Path, JobRequest], SegmentWriter]
    join: Callable[[JobRequest, Sequence[Path], Iterable[Sound], int, Path, Check], None]


def segment_chunks(chunk_frames: int, fps: int) -> int:
    """Chunks of a segment."""
    return max(1, round(SEGMENT_SECONDS * fps / chunk_frames))


class Mp4Segment:
    """H.264 (yuv420p, BT.601) in MP4."""

    def __init__(self, path: Path, request: JobRequest) -> None:
        self._container = av.open(str(path), "w", format="mp4")
        stream = self._container.add_stream("libx264", rate=request.fps, options=X264)
        stream.width, stream.height, stream.pix_fmt = request.width, request.height, "yuv420p"
        stream.codec_context.time_base = Fraction(1, request.fps)
        stream.codec_context.color_range = ColorRange.MPEG
        stream.codec_context.colorspace = BT601
        self._stream, self._tick = stream, Fraction(1, request.fps)
        self._frames = 0

    def write(self, frames: Pictures) -> None:
        for picture in frames:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="yuv420p")
            frame.pts, frame.time_base = self._frames, self._tick
            frame.colorspace, frame.color_range = BT601, ColorRange.MPEG
            self._container.mux(self._stream.encode(frame))
            self._frames += 1

    def finish(self) -> None:
        self._container.mux(self._stream.encode(None))
        self._container.close()

    def close(self) -> None:
        self._container.close()


def join_mp4(
    request: JobRequest,
    segments: Sequence[Path],
    sound: Iterable[Sound],
    sample_rate: int,
    target: Path,
    check: Check,
) -> None:
    """Segments behind each other with their sound as AAC, 48 kHz mono; the index at the front."""
    with av.open(str(target), "w", format="mp4", options={"movflags": "+faststart"}) as out:
        out.metadata.update(tags_of(request))
        with av.open(str(segments[0])) as first:
            video = out.add_stream_from_template(first.streams.video[0])
        voice = _Voice(out, sample_rate) if request.audio else None
        left = request.frames * sample_rate // request.fps
        frames = 0
        for path, samples in zip(segments, sound, strict=True):
            check()
            frames += _append(path, out, video, frames, request.fps)
            if voice is not None:
                voice.write(samples[:left])
                left -= min(left, len(samples))
        if voice is not None:
            voice.finish()


def _append(path: Path, out: OutputContainer, video: Any, start: int, fps: int) -> int:
    """The packets of a segment, `start` frames later; how many."""
    count = 0
    with av.open(str(path)) as given:
        stream = given.streams.video[0]
        for packet in given.demux(stream):
            if packet.dts is None:
                continue
            assert packet.pts is not None and stream.time_base is not None
            shift = round(Fraction(start, fps) / stream.time_base)
            packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
            packet.stream = video
            out.mux(packet)
            count += 1
    return count


class _Voice:
    """Sound of a model, resampled and encoded as it comes."""

    def __init__(self, out: OutputContainer, rate: int) -> None:
        self._out, self._rate, self._samples = out, rate, 0
        self._stream = out.add_stream("aac", rate=AUDIO_RATE, layout="mono")
        self._stream.bit_rate = AUDIO_BITRATE
        self._resampler = av.AudioResampler(format="fltp", layout="mono", rate=AUDIO_RATE)

    def write(self, samples: Sound) -> None:
        if not len(samples):
            return
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = self._rate, self._samples
        frame.time_base = Fraction(1, self._rate)
        self._samples += len(samples)
        self._encode(frame)

    def finish(self) -> None:
        self._encode(None)
        self._out.mux(self._stream.encode(None))

    def _encode(self, frame: av.AudioFrame | None) -> None:
        for resampled in self._resampler.resample(frame):
            self._out.mux(self._stream.encode(resampled))


KINDS: dict[str, Kind] = {"mp4": Kind(suffix=".mp4", writer=Mp4Segment, join=join_mp4)}


# ---- stills --------------------------------------------------------------------------------------


def write_stills(
    request: JobRequest, segments: Sequence[Path], per_segment: int, thumbnail: Path, sheet: Path
) -> None:
    """The WebP thumbnail and the JPEG sheet of up to 16 pictures. `per_segment`: frames of each
    segment but the last."""
    every = max(1, -(-request.frames // SHEET_SIDE**2))
    wanted = range(0, request.frames, every)
    kept = list(_pictures(segments, per_segment, wanted))
    kept[len(kept) // 2].save(thumbnail, "WEBP", quality=85)
    width, height = kept[0].size
    columns = min(SHEET_SIDE, len(kept))
    whole = Image.new("RGB", (columns * width, -(-len(kept) // SHEET_SIDE) * height))
    for index, picture in enumerate(kept):
        whole.paste(picture, (index % SHEET_SIDE * width, index // SHEET_SIDE * height))
    whole.save(sheet, "JPEG", quality=85)


def _pictures(segments: Sequence[Path], per_segment: int, wanted: range) -> Iterator[Image.Image]:
    """Small copies of the frames with these numbers; only segments with one are decoded."""
    for number in sorted({index // per_segment for index in wanted}):
        inside = {i % per_segment for i in wanted if i // per_segment == number}
        with av.open(str(segments[number])) as given:
            yield from _some(given, inside)


def _some(given: InputContainer, inside: set[int]) -> Iterator[Image.Image]:
    for index, frame in enumerate(given.decode(video=0)):
        if index in inside:
            yield small_picture(frame, SHEET_WIDTH)
        if index == max(inside):
            return
