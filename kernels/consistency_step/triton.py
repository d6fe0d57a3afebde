"""One consistency step in Triton: prediction to x0, noise and blend in one pass.

The noise is made in registers, and only for rows whose s is above 0. Compiled without fused
multiply-add: the numbers of the reference, bit for bit.
"""
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

import torch
import triton
import triton.language as tl
from torch import Tensor

from onbeat.kernels.philox_normal.triton import BLOCK, OPTIONS, interleave, normal_block


def consistency_step(
    x: Tensor, prediction: Tensor, t: Tensor, s: Tensor, keys: Tensor, kind: str
) -> Tensor:
    """x, prediction float32 [r, N]; t, s [r]; noise keys int64 [r, 6] -> x at s, float32 [r, N]."""
    x, prediction, keys = x.contiguous(), prediction.contiguous(), keys.contiguous()
    out = torch.empty_like(x)
    grid = (x.shape[0], triton.cdiv(x.shape[1], 4 * BLOCK))
    consistency_step_kernel[grid](
        x,
        prediction,
        t.contiguous(),
        s.contiguous(),
        keys,
        out,
        x.shape[1],
        VELOCITY=kind == "v",
        BLOCK=BLOCK,
        **OPTIONS,
    )
    return out


@triton.jit
def consistency_step_kernel(
    x, prediction, t, s, keys, out, n, VELOCITY: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    element = tl.program_id(1) * BLOCK * 4 + tl.arange(0, BLOCK * 4)
    inside = element < n
    offset = row * n + element
    clean = tl.load(prediction + offset, mask=inside)
    if VELOCITY:
        level = tl.load(t + row).to(tl.float32)
        clean = tl.load(x + offset, mask=inside) - level * clean
    target = tl.load(s + row)
    if target > 0.0:
        block = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        z = interleave(*normal_block(keys + row * 6, block))
        clean = clean * (1.0 - target).to(tl.float32) + z * target.to(tl.float32)
    tl.store(out + offset, clean, mask=inside)
