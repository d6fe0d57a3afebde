"""A job's result as a zip: `frames/000001.png`, ..., `sound.wav`, `generation.json`.

Pictures are encoded once, into segments whose packets are PNG files. What it is not: other formats
(segments.py).
"""

import json
import wave
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import av

from onbeat.server.jobs.encode import Check, PictureSegment, Sound
from onbeat.server.jobs.job import JobRequest

OPTIONS = {"compression_level": "4"}
DATE = (1980, 1, 1, 0, 0, 0)
"""Of all entries: equal results are equal files."""


class PngSegment(PictureSegment):
    """Pictures as PNG in a QuickTime file."""

    def __init__(self, path: Path, request: JobRequest) -> None:
        container = av.open(str(path), "w", format="mov")
        stream: Any = container.add_stream("png", rate=request.fps, options=OPTIONS)
        stream.width, stream.height = request.width, request.height
        stream.pix_fmt = "rgb24"
        super().__init__(container, stream, request.fps)

    def _fitted(self, frame: av.VideoFrame) -> av.VideoFrame:
        rgb = frame.reformat(format="rgb24", src_colorspace="ITU601", dst_color_range="JPEG")
        rgb.pts, rgb.time_base = frame.pts, frame.time_base
        return rgb


def join_zip(
    request: JobRequest,
    segments: Sequence[Path],
    sound: Iterable[Sound],
    sample_rate: int,
    target: Path,
    check: Check,
) -> None:
    """Pictures as they are, sound as it is, and what made them. Nothing is compressed again."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as out:
        for number, png in enumerate(_pictures(segments, check), 1):
            _add(out, f"frames/{number:06}.png", png)
        if request.audio:
            with out.open(_entry("sound.wav"), "w", force_zip64=True) as file:
                _write_wave(file, request, sound, sample_rate)
        _add(out, "generation.json", json.dumps(_generation(request), indent=1).encode())


def _pictures(segments: Sequence[Path], check: Check) -> Iterator[bytes]:
    for path in segments:
        check()
        with av.open(str(path)) as given:
            for packet in given.demux(video=0):
                if packet.dts is not None:
                    yield bytes(packet)


def _write_wave(file: IO[bytes], request: JobRequest, sound: Iterable[Sound], rate: int) -> None:
    """The length is known before, so nothing has to be gone back to."""
    left = request.frames * rate // request.fps
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, rate, left, "NONE", "not compressed"))
        for samples in sound:
            out.writeframesraw(samples[:left].astype("<i2").tobytes())
            left -= min(left, len(samples))
        out.writeframesraw(bytes(2 * left))


def _generation(request: JobRequest) -> dict[str, Any]:
    return {
        "software": "onbeat",
        "model": request.model,
        "prompt": request.prompt,
        "seed": request.seed,
        "steps": request.steps,
        "frames": request.frames,
        "fps": request.fps,
        "width": request.width,
        "height": request.height,
    }


def _add(out: zipfile.ZipFile, name: str, data: bytes) -> None:
    out.writestr(_entry(name), data)


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, DATE)
