"""How pictures and sound are encoded: codecs by format, one way for whole files and for streams.

H.264 (yuv420p, BT.601) and AAC in MP4, VP9 and Opus in WebM, sound 48 kHz mono. Equal pictures give
equal bytes. What it is not: files (segments.py, live_writer.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import av
import numpy as np
import numpy.typing as npt
from av.container import OutputContainer
from av.video.reformatter import ColorRange, Colorspace
from PIL import Image

from onbeat.server.jobs.job import JobRequest

AUDIO_RATE = 48_000
AUDIO_BITRATE = 96_000
SHEET_SIDE = 4
SHEET_WIDTH = 160
BT601 = Colorspace.SMPTE170M

Pictures = npt.NDArray[np.uint8]
"""uint8 [f, height * 3 // 2, width], I420."""
Sound = npt.NDArray[np.int16]
"""int16 [samples], mono."""
Check = Callable[[], None]
"""Called now and then in long work; raises what is to end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """Of a container. video_options, whole, live: options of the encoder, and of the container for
    a file and for a stream; sound_format: of samples, as the encoder takes them."""

    container: Literal["mp4", "webm"]
    video: str
    video_options: dict[str, str]
    sound: str
    sound_format: str
    whole: dict[str, str] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)


H264 = Codec(
    container="mp4",
    video="libx264",
    # With macroblock trees x264 reads memory that it never wrote, and equal pictures give unequal
    # files. The rest is visually close to lossless.
    video_options={"crf": "18", "preset": "veryfast", "threads": "1", "x264-params": "mbtree=0"},
    sound="aac",
    sound_format="fltp",
    whole={"movflags": "+faststart"},
    live={"movflags": "empty_moov+delay_moov+default_base_moof", "frag_duration": "500000"},
)
VP9 = Codec(
    container="webm",
    video="libvpx-vp9",
    video_options={
        "crf": "24",
        "deadline": "good",
        "cpu-used": "5",
        "threads": "1",
        "row-mt": "0",
        "lag-in-frames": "0",
        "auto-alt-ref": "0",
    },
    sound="libopus",
    sound_format="s16",
    whole={"cues_to_front": "1", "fflags": "+bitexact"},  # a segment's id is random otherwise
    live={"live": "1", "cluster_time_limit": "500"},
)


def add_pictures(container: OutputContainer, request: JobRequest, codec: Codec) -> Any:
    """A stream for `picture_of` frames."""
    stream: Any = container.add_stream(codec.video, rate=request.fps, options=codec.video_options)
    stream.width, stream.height, stream.pix_fmt = request.width, request.height, "yuv420p"
    stream.codec_context.time_base = Fraction(1, request.fps)
    stream.codec_context.color_range = ColorRange.MPEG
    stream.codec_context.colorspace = BT601
    if codec.container == "webm":
        stream.bit_rate = 0  # constant quality alone
    return stream


def picture_of(picture: npt.NDArray[np.uint8], index: int, fps: int) -> av.VideoFrame:
    """One I420 picture, uint8 [height * 3 // 2, width], as frame `index`."""
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="yuv420p")
    frame.pts, frame.time_base = index, Fraction(1, fps)
    frame.colorspace, frame.color_range = BT601, ColorRange.MPEG
    return frame


class PictureSegment:
    """One segment's pictures, encoded by themselves into a container of their own."""

    def __init__(self, container: OutputContainer, stream: Any, fps: int) -> None:
        self._container, self._stream = container, stream
        self._fps, self._frames = fps, 0

    def write(self, frames: Pictures) -> None:
        for picture in frames:
            frame = self._fitted(picture_of(picture, self._frames, self._fps))
            self._container.mux(self._stream.encode(frame))
            self._frames += 1

    def _fitted(self, frame: av.VideoFrame) -> av.VideoFrame:
        """The frame as the encoder takes it."""
        return frame

    def finish(self) -> None:
        self._container.mux(self._stream.encode(None))
        self._container.close()

    def close(self) -> None:
        self._container.close()


class Voice:
    """Sound of a model, resampled and encoded as it comes."""

    def __init__(self, out: OutputContainer, rate: int, codec: Codec) -> None:
        """rate: of the samples, Hz."""
        self._out, self._rate, self._samples = out, rate, 0
        stream: Any = out.add_stream(codec.sound, rate=AUDIO_RATE, layout="mono")
        stream.bit_rate = AUDIO_BITRATE
        self._stream = stream
        self._resampler = av.AudioResampler(
            format=codec.sound_format, layout="mono", rate=AUDIO_RATE
        )

    def write(self, samples: Sound) -> None:
        if len(samples):
            frame = sound_of(samples, self._samples, self._rate)
            self._samples += len(samples)
            self._encode(frame)

    def finish(self) -> None:
        self._encode(None)
        self._out.mux(self._stream.encode(None))

    def _encode(self, frame: av.AudioFrame | None) -> None:
        for resampled in self._resampler.resample(frame):
            self._out.mux(self._stream.encode(resampled))


def sound_of(samples: Sound, start: int, rate: int) -> av.AudioFrame:
    """Samples as a frame that begins with sample `start`."""
    frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
    frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
    return frame


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
