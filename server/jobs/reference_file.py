"""Reference media from files: a picture or a short video to frames and sound at a model's size.

Pictures by Pillow, videos by PyAV, cover-cropped; everything that comes in is bounded. What it is
not: HTTP, or the encoding to latents (the engine's).
"""

import io
from collections.abc import Iterator

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from PIL import Image, ImageOps

from onbeat.server.engine.reference import MAX_SECONDS, pack_reference

MAX_BYTES = 8 * 1024 * 1024
MAX_PIXELS = 4096 * 4096
MAX_DECODED = 1200
ROUNDING = 1e-6
"""Seconds by which a frame's time may be off."""
PICTURES = ("PNG", "JPEG")
VIDEOS = ("MP4", "MOV", "WebM", "Matroska", "AVI", "GIF")
DEMUXERS = {"format_whitelist": "mov,matroska,avi,gif", "protocol_whitelist": "none"}
"""Of FFmpeg. Others follow a text to other files or to the network (playlists, SDP)."""


class BadReference(ValueError):
    """A file that cannot be a reference; the message names the value and what is allowed."""


def read_reference(data: bytes, *, width: int, height: int, fps: int, sample_rate: int) -> bytes:
    """A file's bytes, packed for `OpenStream.reference`. Raises BadReference."""
    if not 1 <= len(data) <= MAX_BYTES:
        raise BadReference(f"reference: {len(data)} bytes; allowed: 1 to {MAX_BYTES}")
    picture = _picture(data)
    if picture is not None:
        frames, sound = fit(picture, width, height)[None], np.zeros(0, np.int16)
    else:
        frames, sound = _video(data, (width, height), fps, sample_rate)
    return pack_reference(frames, sound, fps=fps, sample_rate=sample_rate)


def _picture(data: bytes) -> Image.Image | None:
    """None if this is no picture. Its size is checked before it is decoded."""
    try:
        picture = Image.open(io.BytesIO(data), formats=PICTURES)
    except (OSError, Image.DecompressionBombError):
        return None
    check_size(*picture.size)
    try:
        return ImageOps.exif_transpose(picture).convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise BadReference(f"reference: a {picture.format} that is broken ({error})") from error


def check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise BadReference(f"reference: {width}x{height} pixels; allowed: at most {MAX_PIXELS}")


def fit(picture: Image.Image, width: int, height: int) -> npt.NDArray[np.uint8]:
    """Fills the size, cropped around the middle: uint8 [height, width, 3]."""
    return np.asarray(ImageOps.fit(picture, (width, height), Image.Resampling.BICUBIC))


def _video(
    data: bytes, size: tuple[int, int], fps: int, sample_rate: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]:
    try:
        with _open(data) as container:
            frames = list(_frames(container, size, fps))
        with _open(data) as container:
            sound = _sound(container, sample_rate, len(frames) * sample_rate // fps)
    except av.FFmpegError as error:
        kinds = ", ".join((*PICTURES, *VIDEOS))
        raise BadReference(f"reference: a file that cannot be read; allowed: {kinds}") from error
    if not frames:
        raise BadReference("reference: a video without a frame; allowed: 1 frame or more")
    return np.stack(frames), sound


def _open(data: bytes) -> InputContainer:
    """Reads nothing but `data`."""
    return av.open(io.BytesIO(data), "r", options=DEMUXERS)


def _frames(
    container: InputContainer, size: tuple[int, int], fps: int
) -> Iterator[npt.NDArray[np.uint8]]:
    """The picture shown at each instant of the model's clock."""
    if not container.streams.video:
        raise BadReference("reference: a file without pictures; allowed: a picture or a video")
    due, start, last = 0, None, None
    for count, frame in enumerate(container.decode(video=0)):
        check_size(frame.width, frame.height)
        start = frame.time if start is None else start
        at = (frame.time or 0.0) - (start or 0.0)
        if at > MAX_SECONDS or count > MAX_DECODED:
            raise BadReference(
                f"reference: a video longer than {at:.1f} s; "
                f"allowed: {MAX_SECONDS:g} s, {MAX_DECODED} frames"
            )
        while last is not None and due / fps < at - ROUNDING and due < MAX_SECONDS * fps:
            yield last
            due += 1
        last = fit(Image.fromarray(frame.to_ndarray(format="rgb24")), *size)
    if last is not None and due < MAX_SECONDS * fps:
        yield last


def _sound(container: InputContainer, rate: int, samples: int) -> npt.NDArray[np.int16]:
    """Mono, cut or filled with silence to `samples`; empty for a file without sound."""
    if not container.streams.audio:
        return np.zeros(0, np.int16)
    resampler = av.AudioResampler(format="s16", layout="mono", rate=rate)
    parts: list[npt.NDArray[np.int16]] = []
    for frame in (*container.decode(audio=0), None):
        parts += [part.to_ndarray()[0].astype(np.int16) for part in resampler.resample(frame)]
        if sum(map(len, parts)) >= samples:
            break
    sound = np.concatenate([*parts, np.zeros(samples, np.int16)])
    return sound[:samples]
