"""Colour conversion in Triton: each lane takes 2x2 pixels and writes four Y, one U and one V.

Integer arithmetic with the reference's coefficients: the same bytes.
"""
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 128
OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}


def rgb_to_i420(frames: Tensor) -> Tensor:
    """uint8 [b, H, W, 3] -> uint8 [b, H * 3 // 2, W]."""
    count, height, width, _ = frames.shape
    frames = frames.contiguous()
    out = torch.empty((count, height * 3 // 2, width), dtype=torch.uint8, device=frames.device)
    grid = (count, height // 2, triton.cdiv(width // 2, BLOCK))
    rgb_to_i420_kernel[grid](frames, out, height, width, BLOCK=BLOCK, **OPTIONS)
    return out


@triton.jit
def rgb_to_i420_kernel(frames, out, height, width, BLOCK: tl.constexpr):
    frame = tl.program_id(0).to(tl.int64)
    y, x = tl.program_id(1), tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width // 2
    top = (2 * y) * width + 2 * x
    pixels, planes = frames + frame * height * width * 3, out + frame * (height * width * 3 // 2)
    r0, g0, b0 = _luma(pixels, planes, top, inside)
    r1, g1, b1 = _luma(pixels, planes, top + 1, inside)
    r2, g2, b2 = _luma(pixels, planes, top + width, inside)
    r3, g3, b3 = _luma(pixels, planes, top + width + 1, inside)
    red, green, blue = r0 + r1 + r2 + r3, g0 + g1 + g2 + g3, b0 + b1 + b2 + b3
    u = (7196 * blue - 2428 * red - 4768 * green + 8421376) >> 16  # 128.5 * 2^16
    v = (7196 * red - 6026 * green - 1170 * blue + 8421376) >> 16
    place = height * width + y * (width // 2) + x
    tl.store(planes + place, u.to(tl.uint8), mask=inside)
    tl.store(planes + place + (height // 2) * (width // 2), v.to(tl.uint8), mask=inside)


@triton.jit
def _luma(pixels, planes, place, inside):
    """Writes Y of the pixels at `place`; returns their colours as int32."""
    red = tl.load(pixels + place * 3, mask=inside, other=0).to(tl.int32)
    green = tl.load(pixels + place * 3 + 1, mask=inside, other=0).to(tl.int32)
    blue = tl.load(pixels + place * 3 + 2, mask=inside, other=0).to(tl.int32)
    y = (16829 * red + 33039 * green + 6416 * blue + 1081344) >> 16  # 16.5 * 2^16
    tl.store(planes + place, y.to(tl.uint8), mask=inside)
    return red, green, blue
