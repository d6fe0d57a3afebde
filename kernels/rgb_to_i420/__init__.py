"""Pictures as the video encoders want them (see `rgb_to_i420`)."""

import torch
from torch import Tensor

from onbeat.kernels._dispatch import use_triton
from onbeat.kernels.rgb_to_i420 import reference

__all__ = ["rgb_to_i420"]


def rgb_to_i420(frames: Tensor) -> Tensor:
    """RGB uint8 [..., H, W, 3] -> planar YUV 4:2:0 uint8 [..., H * 3 // 2, W].

    BT.601, limited range (Y 16..235, U and V 16..240): the full Y plane, then U, then V, each the
    2x2 mean of the colour and (H / 2) x (W / 2) large. Rounded half up from 16-bit fixed point; a
    frame has the same bytes in any batch and on any device. Raises ValueError for odd sizes.
    """
    if frames.dtype != torch.uint8 or frames.dim() < 3 or frames.shape[-1] != 3:
        raise ValueError(
            f"frames is {frames.dtype} {tuple(frames.shape)}; allowed: torch.uint8 (..., H, W, 3)"
        )
    *batch, height, width, _ = frames.shape
    for name, size in (("height", height), ("width", width)):
        if size % 2:
            raise ValueError(f"frames has {name} {size}; allowed: even sizes")
    flat = frames.reshape(-1, height, width, 3)
    if use_triton(frames):
        from onbeat.kernels.rgb_to_i420.triton import rgb_to_i420 as fast

        planes = fast(flat)
    else:
        planes = reference.rgb_to_i420(flat)
    return planes.view(*batch, height * 3 // 2, width)
