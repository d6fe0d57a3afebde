"""Chunks to an MP4 file as they come: H.264 (yuv420p, BT.601) and AAC 48 kHz mono, moov at front.

Also the two stills: a WebP thumbnail and a JPEG sheet. Memory is bounded: nothing but the encoder's
own look-ahead and 16 small pictures is kept. What it is not: where files lie (artifacts.py).
"""

from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import numpy as np
import numpy.typing as npt
from av.audio.stream import AudioStream
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream
from PIL import Image

from onbeat.server.jobs.job import JobRequest

AUDIO_RATE = 48_000
AUDIO_BITRATE = 96_000
X264 = {"crf": "18", "preset": "veryfast", "threads": "1", "x264-params": "mbtree=0"}
"""Visually close to lossless. With macroblock trees x264 reads memory that it never wrote, and
equal pictures give unequal files."""
SHEET_SIDE = 4
SHEET_WIDTH = 160
BT601 = Colorspace.SMPTE170M


class Mp4Writer:
    """Writes one file. Use as a context manager; the file is complete once `finish` has returned.

    sample_rate: of the chunks' sound, Hz. More frames or samples than asked for are cut off.
    """

    def __init__(self, path: Path, request: JobRequest, sample_rate: int) -> None:
        self._request = request
        self._container = av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"})
        self._container.metadata.update(tags_of(request))
        self._video = self._add_video()
        self._audio = self._add_audio() if request.audio else None
        self._resampler = av.AudioResampler(format="fltp", layout="mono", rate=AUDIO_RATE)
        self._rate = sample_rate
        self._samples_wanted = request.frames * sample_rate // request.fps
        self._samples = 0
        self._kept: list[Image.Image] = []
        self.frames = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._container.close()

    def write(self, frames: npt.NDArray[np.uint8], audio: npt.NDArray[np.int16]) -> None:
        """frames uint8 [f, height * 3 // 2, width] I420; audio int16 [samples] mono."""
        for picture in frames[: self._request.frames - self.frames]:
            self._picture(picture)
        if self._audio is not None:
            self._sound(audio[: self._samples_wanted - self._samples])

    def finish(self) -> None:
        """Flushes the encoders and moves the index to the front."""
        self._container.mux(self._video.encode(None))
        if self._audio is not None:
            for frame in self._resampler.resample(None):
                self._container.mux(self._audio.encode(frame))
            self._container.mux(self._audio.encode(None))
        self._container.close()

    def stills(self, thumbnail: Path, sheet: Path) -> None:
        """Writes the WebP thumbnail and the JPEG sheet of up to 16 pictures."""
        self._kept[len(self._kept) // 2].save(thumbnail, "WEBP", quality=85)
        width, height = self._kept[0].size
        rows = -(-len(self._kept) // SHEET_SIDE)
        columns = min(SHEET_SIDE, len(self._kept))
        whole = Image.new("RGB", (columns * width, rows * height))
        for index, picture in enumerate(self._kept):
            whole.paste(picture, (index % SHEET_SIDE * width, index // SHEET_SIDE * height))
        whole.save(sheet, "JPEG", quality=85)

    def _add_video(self) -> VideoStream:
        request = self._request
        stream = self._container.add_stream("libx264", rate=request.fps, options=X264)
        stream.width, stream.height, stream.pix_fmt = request.width, request.height, "yuv420p"
        stream.codec_context.time_base = Fraction(1, request.fps)
        stream.codec_context.color_range = ColorRange.MPEG
        stream.codec_context.colorspace = BT601
        return stream

    def _add_audio(self) -> AudioStream:
        stream = self._container.add_stream("aac", rate=AUDIO_RATE, layout="mono")
        stream.bit_rate = AUDIO_BITRATE
        return stream

    def _picture(self, picture: npt.NDArray[np.uint8]) -> None:
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="yuv420p")
        frame.pts, frame.time_base = self.frames, Fraction(1, self._request.fps)
        frame.colorspace, frame.color_range = BT601, ColorRange.MPEG
        self._container.mux(self._video.encode(frame))
        every = max(1, -(-self._request.frames // SHEET_SIDE**2))
        if self.frames % every == 0:
            self._kept.append(small_picture(frame, SHEET_WIDTH))
        self.frames += 1

    def _sound(self, samples: npt.NDArray[np.int16]) -> None:
        assert self._audio is not None
        if not len(samples):
            return
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = self._rate, self._samples
        frame.time_base = Fraction(1, self._rate)
        self._samples += len(samples)
        for resampled in self._resampler.resample(frame):
            self._container.mux(self._audio.encode(resampled))


def tags_of(request: JobRequest) -> dict[str, str]:
    """What the file says of itself, so that it can be made again."""
    made = f"onbeat model={request.model} seed={request.seed} steps={request.steps}"
    return {"title": request.prompt, "comment": made}


def small_picture(frame: av.VideoFrame, most: int) -> Image.Image:
    """An RGB picture at most so wide, of even size."""
    width = min(frame.width, most)
    height = max(2, round(frame.height * width / frame.width / 2) * 2)
    return Image.fromarray(
        frame.to_ndarray(format="rgb24", width=width, height=height, src_colorspace="ITU601")
    )
