"""The pictures that a session shows now, and those that were kept; PNG or JPEG when asked for.

It holds references to the last chunks, no copies. What it is not: the sending (onbeat.webrtc), or
recording (recordings.py).
"""

import io
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Literal

import av
import numpy as np
import numpy.typing as npt
from PIL import Image

from onbeat.server.api.errors import ApiError
from onbeat.webrtc.media import MediaChunk

REMEMBERED_CHUNKS = 4
"""More than are finished ahead of their playout, so that the one that is shown is among them."""
KEPT = 8
Format = Literal["png", "jpeg"]
MEDIA_TYPE: dict[Format, str] = {"png": "image/png", "jpeg": "image/jpeg"}
JPEG_QUALITY = 92


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPicture:
    """I420 uint8 [height * 3 // 2, width], BT.601; `media_time`: seconds of the stream."""

    chunk: int
    media_time: float
    i420: npt.NDArray[np.uint8]


class Pictures:
    """Of one session. Not thread-safe."""

    def __init__(self) -> None:
        self._chunks: deque[MediaChunk] = deque(maxlen=REMEMBERED_CHUNKS)
        self._kept: OrderedDict[int, ShownPicture] = OrderedDict()
        self._count = 0

    def add(self, chunk: MediaChunk) -> None:
        """A chunk that will be shown."""
        self._chunks.append(chunk)

    def shown(self, now: float) -> ShownPicture:
        """The newest picture whose instant has come. Raises ApiError 409 before the first."""
        if not self._chunks:
            raise ApiError(409, "no_picture", "The session has not made a picture yet.")
        begun = [chunk for chunk in self._chunks if chunk.playout_at <= now]
        chunk = begun[-1] if begun else self._chunks[0]
        frames = len(chunk.frames)
        at = min(frames - 1, max(0, int((now - chunk.playout_at) * chunk.fps)))
        time = round((chunk.index * frames + at) / chunk.fps, 4)
        return ShownPicture(chunk=chunk.index, media_time=time, i420=chunk.frames[at])

    def keep(self, now: float) -> tuple[int, ShownPicture]:
        """Keeps what is shown now, for a later download; its number."""
        picture = self.shown(now)
        self._count += 1
        self._kept[self._count] = picture
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._count, picture

    def kept(self, number: int) -> ShownPicture:
        """Raises ApiError 404."""
        if number not in self._kept:
            message = f"No snapshot {number}; the last {KEPT} are kept."
            raise ApiError(404, "snapshot_not_found", message, param="number")
        return self._kept[number]


def encoded(picture: ShownPicture, kind: Format) -> bytes:
    """A whole file. Any thread."""
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture.i420), format="yuv420p")
    image = Image.fromarray(frame.to_ndarray(format="rgb24", src_colorspace="ITU601"))
    out = io.BytesIO()
    if kind == "png":
        image.save(out, "PNG")
    else:
        image.save(out, "JPEG", quality=JPEG_QUALITY)
    return out.getvalue()
