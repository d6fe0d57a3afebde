"""Whether this machine can encode H.264 on its GPU, found by trying, and with which options.

Many data-centre GPUs have no encoder (the GA100 and Hopper families among them), so that neither
the driver nor the name of the card says it. Not measured: no machine of ours had one.
"""

import functools
import logging
from fractions import Fraction

import av
import numpy as np
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext

NVENC = "h264_nvenc"
OPTIONS = {
    "preset": "p1",
    "tune": "ull",
    "rc": "cbr",
    "zerolatency": "1",
    "delay": "0",
    "bf": "0",
    "forced-idr": "1",
    "no-scenecut": "1",
}
SIDE = 256
"""Pixels of the picture that is tried; some encoders refuse very small ones."""
logger = logging.getLogger(__name__)


@functools.cache
def nvenc_works() -> bool:
    """Opens an encoder and has it encode a picture, once a process; takes up to a second there."""
    try:
        found = _try()
    except (FFmpegError, ValueError) as error:
        logger.info("H.264 is encoded on the CPU: no encoder on a GPU (%s)", error)
        return False
    logger.info("H.264 is encoded on the GPU")
    return found


def _try() -> bool:
    context = av.CodecContext.create(NVENC, "w")
    assert isinstance(context, VideoCodecContext)
    context.width = context.height = SIDE
    context.pix_fmt, context.bit_rate = "yuv420p", 500_000
    context.time_base, context.framerate = Fraction(1, 90_000), Fraction(30, 1)
    context.options = dict(OPTIONS)
    context.open()
    picture = np.full((SIDE * 3 // 2, SIDE), 128, np.uint8)
    frame = av.VideoFrame.from_ndarray(picture, format="yuv420p")
    frame.pts = 0
    return bool(context.encode(frame))
