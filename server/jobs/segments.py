"""Pictures in segments of a few seconds, each encoded by itself, and the whole file made of them.

A segment is a closed group of pictures with an encoder of its own, so its bytes depend on nothing
but its pictures, and a job that is interrupted between two segments gives the same file. Sound is
encoded once, at the end, without a seam. What it is not: where files lie (workspace.py).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import av
from av.container import InputContainer, OutputContainer
from PIL import Image

from onbeat.server.jobs.encode import (
    H264,
    SHEET_SIDE,
    SHEET_WIDTH,
    VP9,
    Check,
    Codec,
    Pictures,
    PictureSegment,
    Sound,
    Voice,
    add_pictures,
    small_picture,
    tags_of,
)
from onbeat.server.jobs.formats import Format
from onbeat.server.jobs.job import JobRequest
from onbeat.server.jobs.waves import join_wav
from onbeat.server.jobs.zipped import PngSegment, join_zip

SEGMENT_SECONDS = 4.0


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


class AvSegment(PictureSegment):
    """Pictures of one codec in MP4, which keeps their instants exactly."""

    def __init__(self, path: Path, request: JobRequest, *, codec: Codec) -> None:
        container = av.open(str(path), "w", format="mp4")
        super().__init__(container, add_pictures(container, request, codec), request.fps)


def join_av(
    request: JobRequest,
    segments: Sequence[Path],
    sound: Iterable[Sound],
    sample_rate: int,
    target: Path,
    check: Check,
    *,
    codec: Codec,
) -> None:
    """Segments behind each other with their sound, 48 kHz mono; the index at the front."""
    with av.open(str(target), "w", format=codec.container, options=codec.whole) as out:
        out.metadata.update(tags_of(request))
        with av.open(str(segments[0])) as first:
            video = out.add_stream_from_template(first.streams.video[0])
        voice = Voice(out, sample_rate, codec) if request.audio else None
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


def _coded(codec: Codec) -> Kind:
    return Kind(
        suffix=".mp4",
        writer=partial(AvSegment, codec=codec),
        join=partial(join_av, codec=codec),
    )


KINDS: dict[Format, Kind] = {
    "mp4": _coded(H264),
    "webm": _coded(VP9),
    "png": Kind(suffix=".mov", writer=PngSegment, join=join_zip),
    "wav": Kind(suffix=".mp4", writer=partial(AvSegment, codec=H264), join=join_wav),
}


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
