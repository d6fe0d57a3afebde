"""The end of a video, packed: what an extension goes on from.

Only the last seconds are decoded. What it is not: references that are shown from their beginning
(reference_file.py), or a cut without decoding.
"""

import io
from collections import deque

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from PIL import Image

from onbeat.server.engine.reference import pack_reference
from onbeat.server.jobs.reference_file import DEMUXERS, BadReference, check_size, fit

MARGIN_SECONDS = 1.0
MAX_DECODED = 3000
Frames = list[tuple[float, npt.NDArray[np.uint8]]]


def read_tail(
    data: bytes, *, seconds: float, width: int, height: int, fps: int, sample_rate: int
) -> bytes:
    """The last `seconds` of a video, packed for `OpenStream.reference`. Raises BadReference."""
    try:
        with av.open(io.BytesIO(data), "r", options=DEMUXERS) as container:
            _to_the_end(container, seconds)
            shown = _frames(container, seconds, (width, height))
        frames, start = _on_grid(shown, fps, seconds)
        with av.open(io.BytesIO(data), "r", options=DEMUXERS) as container:
            _to_the_end(container, seconds)
            sound = _sound(container, sample_rate, start, len(frames) * sample_rate // fps)
    except av.FFmpegError as error:
        raise BadReference("video: a file that cannot be read; allowed: MP4") from error
    return pack_reference(frames, sound, fps=fps, sample_rate=sample_rate)


def _to_the_end(container: InputContainer, seconds: float) -> None:
    wanted = int((seconds + MARGIN_SECONDS) * av.time_base)
    if container.duration is not None and container.duration > wanted:
        container.seek(container.duration - wanted)


def _frames(container: InputContainer, seconds: float, size: tuple[int, int]) -> Frames:
    """Frames with their instants; more than the last `seconds`, but not many more."""
    if not container.streams.video:
        raise BadReference("video: a file without pictures; allowed: a video")
    kept: deque[tuple[float, npt.NDArray[np.uint8]]] = deque()
    for count, frame in enumerate(container.decode(video=0)):
        check_size(frame.width, frame.height)
        if count > MAX_DECODED:
            raise BadReference(f"video: more than {MAX_DECODED} frames; allowed: key frames within")
        at = frame.time or 0.0
        kept.append((at, fit(Image.fromarray(frame.to_ndarray(format="rgb24")), *size)))
        while kept[0][0] < at - seconds - MARGIN_SECONDS:
            kept.popleft()
    if not kept:
        raise BadReference("video: a video without a frame; allowed: 1 frame or more")
    return list(kept)


def _on_grid(shown: Frames, fps: int, seconds: float) -> tuple[npt.NDArray[np.uint8], float]:
    """The picture shown at each instant of the model's clock, the last one last; the first one's
    instant."""
    end = shown[-1][0]
    count = max(1, min(int(seconds * fps), round((end - shown[0][0]) * fps) + 1))
    times = np.array([at for at, _ in shown])
    grid = end - np.arange(count - 1, -1, -1) / fps
    at = np.maximum(0, np.searchsorted(times, grid + 1e-6, side="right") - 1)
    return np.stack([shown[index][1] for index in at]), float(grid[0])


def _sound(
    container: InputContainer, rate: int, start: float, samples: int
) -> npt.NDArray[np.int16]:
    """Mono from `start` on; silence where there is none; empty for a file without sound."""
    if not container.streams.audio:
        return np.zeros(0, np.int16)
    resampler = av.AudioResampler(format="s16", layout="mono", rate=rate)
    whole = np.zeros(samples, np.int16)
    at: int | None = None
    for frame in (*container.decode(audio=0), None):
        if at is None and frame is not None:
            at = round(((frame.time or 0.0) - start) * rate)
        for part in resampler.resample(frame):
            piece = part.to_ndarray()[0]
            assert at is not None
            first, last = max(0, at), min(samples, at + len(piece))
            if first < last:
                whole[first:last] = piece[first - at : last - at]
            at += len(piece)
    return whole
