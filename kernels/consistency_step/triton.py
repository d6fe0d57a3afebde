"""One ragged step in Triton: prediction to clean latents, noise and blend in one pass.

The noise is made in registers, and only for rows that take some. Compiled without fused
multiply-add: the numbers of the reference, bit for bit.
"""
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

import torch
import triton
import triton.language as tl
from torch import Tensor

from onbeat.kernels.philox_normal.triton import BLOCK, OPTIONS, interleave, normal_block


def consistency_step(
    x: Tensor, prediction: Tensor, coefficients: Tensor, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """x, prediction float32 [r, N]; coefficients [r, 6]; keys int64 [r, 6] -> (next, clean)."""
    x, prediction = x.contiguous(), prediction.contiguous()
    after, clean = torch.empty_like(x), torch.empty_like(x)
    grid = (x.shape[0], triton.cdiv(x.shape[1], 4 * BLOCK))
    consistency_step_kernel[grid](
        x,
        prediction,
        coefficients.contiguous(),
        keys.contiguous(),
        after,
        clean,
        x.shape[1],
        BLOCK=BLOCK,
        **OPTIONS,
    )
    return after, clean


@triton.jit
def consistency_step_kernel(
    x, prediction, coefficients, keys, after, clean, n, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    element = tl.program_id(1) * BLOCK * 4 + tl.arange(0, BLOCK * 4)
    inside = element < n
    offset = row * n + element
    k = coefficients + row * 6
    clean_x, clean_p, clip, next_x = tl.load(k), tl.load(k + 1), tl.load(k + 2), tl.load(k + 3)
    x_n = tl.load(x + offset, mask=inside)
    total = tl.load(prediction + offset, mask=inside) * clean_p.to(tl.float32)
    total = tl.where(clean_p == 0.0, 0.0, total)
    if clean_x != 0.0:
        total = total + x_n * clean_x.to(tl.float32)
    if clip < float("inf"):
        limit = clip.to(tl.float32)
        total = tl.minimum(tl.maximum(total, -limit), limit)
    tl.store(clean + offset, total, mask=inside)
    next_clean = tl.load(k + 4)
    total = tl.where(next_clean == 0.0, 0.0, total * next_clean.to(tl.float32))
    if next_x != 0.0:
        total = total + x_n * next_x.to(tl.float32)
    noise = tl.load(k + 5)
    if noise != 0.0:
        block = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        z = interleave(*normal_block(keys + row * 6, block))
        total = total + z * noise.to(tl.float32)
    tl.store(after + offset, total, mask=inside)
