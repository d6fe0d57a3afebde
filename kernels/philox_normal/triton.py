"""Philox4x32-10 and Box-Muller in Triton; the numbers of the reference, bit for bit.

The same polynomials, compiled without fused multiply-add: see the reference for the mathematics.
`normal_block` and `interleave` also serve the consistency step.
"""
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256
"""Counter blocks (of four numbers) per program."""
OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}

_PI = tl.constexpr(math.pi)
_LN2 = tl.constexpr(math.log(2.0))
_SQRT_HALF = tl.constexpr(math.sqrt(0.5))


def philox_normal(keys: Tensor, n: int) -> Tensor:
    """Noise keys int64 [r, 6] -> standard normal float32 [r, n]; layout in the package."""
    keys = keys.contiguous()
    out = torch.empty((keys.shape[0], n), dtype=torch.float32, device=keys.device)
    grid = (keys.shape[0], triton.cdiv(n, 4 * BLOCK))
    philox_normal_kernel[grid](keys, out, n, BLOCK=BLOCK, **OPTIONS)
    return out


@triton.jit
def philox_normal_kernel(keys, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    z = interleave(*normal_block(keys + row * 6, block))
    element = tl.program_id(1) * BLOCK * 4 + tl.arange(0, BLOCK * 4)
    tl.store(out + row * n + element, z, mask=element < n)


@triton.jit
def normal_block(key, block):
    """The four numbers float32 of each counter block int32 [b] under the key at `key`."""
    last = ((tl.load(key + 3) & 0xFF) << 24) | (tl.load(key + 4) & 0xFFFFFF)
    chunk, stream = tl.load(key + 2).to(tl.uint32), tl.load(key + 1).to(tl.uint32)
    zero = block * 0
    a, b, c, d = tl.philox(
        tl.load(key),
        block.to(tl.uint32, bitcast=True),
        chunk + zero.to(tl.uint32, bitcast=True),
        stream + zero.to(tl.uint32, bitcast=True),
        last.to(tl.uint32) + zero.to(tl.uint32, bitcast=True),
    )
    z0, z1 = _box_muller(a, b)
    z2, z3 = _box_muller(c, d)
    return z0, z1, z2, z3


@triton.jit
def interleave(z0, z1, z2, z3):
    """Four [b] -> [4 b], element 4 i + j from z_j[i]."""
    return tl.interleave(tl.interleave(z0, z2), tl.interleave(z1, z3))


@triton.jit
def _box_muller(a, b):
    unit = (a.to(tl.int32, bitcast=True).to(tl.float64) + 2147483648.5) * (1.0 / 4294967296.0)
    radius = tl.sqrt(_log(unit) * -2.0)
    sine, cosine = _sincos(b.to(tl.int32, bitcast=True).to(tl.float64) * (_PI / 2147483648.0))
    return (cosine * radius).to(tl.float32), (sine * radius).to(tl.float32)


@triton.jit
def _log(x):
    bits = x.to(tl.int64, bitcast=True)
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | 0x3FE0000000000000).to(tl.float64, bitcast=True)
    f = (mantissa - _SQRT_HALF) / (mantissa + _SQRT_HALF)
    exponent = ((bits >> 52).to(tl.float64) - 1022.5) * _LN2
    f2 = f * f
    total = f2 * (2.0 / 13.0)
    total = (total + 2.0 / 11.0) * f2
    total = (total + 2.0 / 9.0) * f2
    total = (total + 2.0 / 7.0) * f2
    total = (total + 2.0 / 5.0) * f2
    total = (total + 2.0 / 3.0) * f2
    return (total + 2.0) * f + exponent


@triton.jit
def _sincos(x):
    y = x * 0.25
    y2 = y * y
    sine = y2 * (1.0 / 6227020800.0)
    sine = (sine - 1.0 / 39916800.0) * y2
    sine = (sine + 1.0 / 362880.0) * y2
    sine = (sine - 1.0 / 5040.0) * y2
    sine = (sine + 1.0 / 120.0) * y2
    sine = (sine - 1.0 / 6.0) * y2
    sine = (sine + 1.0) * y
    cosine = y2 * (-1.0 / 87178291200.0)
    cosine = (cosine + 1.0 / 479001600.0) * y2
    cosine = (cosine - 1.0 / 3628800.0) * y2
    cosine = (cosine + 1.0 / 40320.0) * y2
    cosine = (cosine - 1.0 / 720.0) * y2
    cosine = (cosine + 1.0 / 24.0) * y2
    cosine = (cosine - 1.0 / 2.0) * y2
    cosine = cosine + 1.0
    for _ in tl.static_range(2):
        sine, cosine = sine * cosine * 2.0, sine * sine * -2.0 + 1.0
    return sine, cosine
