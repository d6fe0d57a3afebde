"""Colour conversion in plain torch: the CPU path and the oracle of the Triton version.

All sums are integers below 2^24 held in float32, hence exact in any order; the one rounding is the
final shift.
"""

import torch
from torch import Tensor

LUMA = (16829.0, 33039.0, 6416.0)
"""BT.601 limited range, times 2^16: (65.481, 128.553, 24.966) / 255."""
BLUE = (-2428.0, -4768.0, 7196.0)
"""Times 2^14, then / 4 for the sum of four pixels: (-37.797, -74.203, 112) / 255."""
RED = (7196.0, -6026.0, -1170.0)
"""Times 2^14, then / 4 for the sum of four pixels: (112, -93.786, -18.214) / 255."""


def rgb_to_i420(frames: Tensor) -> Tensor:
    """uint8 [b, H, W, 3] -> uint8 [b, H * 3 // 2, W]."""
    count, height, width, _ = frames.shape
    rgb = frames.permute(3, 0, 1, 2).float()
    quads = rgb[..., 0::2, :] + rgb[..., 1::2, :]
    quads = quads[..., 0::2] + quads[..., 1::2]
    planes = (
        _plane(rgb, LUMA, 16, 16),
        _plane(quads, BLUE, 128, 16),
        _plane(quads, RED, 128, 16),
    )
    flat = torch.cat([plane.flatten(1) for plane in planes], dim=1)
    return flat.view(count, height * 3 // 2, width)


def _plane(rgb: Tensor, row: tuple[float, float, float], offset: int, shift: int) -> Tensor:
    total = rgb[0] * row[0] + rgb[1] * row[1] + rgb[2] * row[2]
    return (total * 2.0**-shift + (offset + 0.5)).floor_().to(torch.uint8)
