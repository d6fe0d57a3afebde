"""Any received picture to RGB of one size: turned upright, its pixels made square, fitted.

Cover (the rule unless asked otherwise): scaled until it fills the size, cut around its middle.
Contain: scaled until it is wholly inside, on black. Pictures of an extreme shape are contained
either way. Scaling, and from YUV, is FFmpeg's. What it is not: choosing pictures (resample.py).
"""

from fractions import Fraction
from typing import Literal

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import Interpolation

Fit = Literal["cover", "contain"]
MOST_CUT = 16.0
"""A picture of which cover would show less than this part of its length is contained instead."""


def fit_picture(
    picture: av.VideoFrame,
    *,
    width: int,
    height: int,
    rotation: int = 0,
    pixel_aspect: Fraction = Fraction(1),
    rule: Fit = "cover",
) -> npt.NDArray[np.uint8]:
    """uint8 RGB [height, width, 3]. `rotation`: degrees clockwise, a multiple of 90, that make it
    stand upright; `pixel_aspect`: width to height of its pixels as it was sent."""
    turned = rotation % 180 == 90
    room = (height, width) if turned else (width, height)
    size = _scaled(picture, room, pixel_aspect, rule)
    scaled = picture.reformat(
        width=size[0], height=size[1], format="rgb24", interpolation=Interpolation.AREA
    )
    placed = _placed(scaled.to_ndarray().astype(np.uint8, copy=False), room)
    return np.ascontiguousarray(np.rot90(placed, -(rotation // 90) % 4))


def _scaled(
    picture: av.VideoFrame, room: tuple[int, int], pixel_aspect: Fraction, rule: Fit
) -> tuple[int, int]:
    """The size to scale to, as sent."""
    aspect = pixel_aspect if pixel_aspect > 0 else Fraction(1)
    shown = (float(picture.width * aspect), float(picture.height))
    each = [have / want for have, want in zip(room, shown, strict=True)]
    extreme = max(each) > MOST_CUT * min(each)
    scale = max(each) if rule == "cover" and not extreme else min(each)
    return max(1, round(shown[0] * scale)), max(1, round(shown[1] * scale))


def _placed(pixels: npt.NDArray[np.uint8], room: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Cut to the room around the middle, or in the middle of black."""
    height, width = pixels.shape[:2]
    cut_x, cut_y = max(0, width - room[0]) // 2, max(0, height - room[1]) // 2
    cut = pixels[cut_y : cut_y + room[1], cut_x : cut_x + room[0]]
    if cut.shape[:2] == (room[1], room[0]):
        return cut
    out = np.zeros((room[1], room[0], 3), np.uint8)
    top, left = (room[1] - cut.shape[0]) // 2, (room[0] - cut.shape[1]) // 2
    out[top : top + cut.shape[0], left : left + cut.shape[1]] = cut
    return out
