"""The nouns of the media side: what is given to it. No torch, no engine."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaChunk:
    """The decoded pictures and sound of one chunk, with the instant at which it is due.

    frames: uint8 [f, height * 3 // 2, width], planar YUV 4:2:0 (I420, BT.601 limited range).
    audio: int16 mono [samples]. playout_at: seconds on the monotonic clock at which the first
    frame should leave. index counts chunks of the stream from 0; gaps mean dropped chunks.
    revision: the last control revision that this chunk was generated with.
    """

    index: int
    frames: npt.NDArray[np.uint8]
    audio: npt.NDArray[np.int16]
    fps: int
    sample_rate: int
    playout_at: float
    revision: int = 0
