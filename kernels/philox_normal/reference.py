"""Philox4x32-10 and Box-Muller in plain torch: the CPU path and the oracle of the Triton version.

Only integer operations, the four IEEE operations and square root are used (logarithm, sine and
cosine are polynomials in float64, good to 1e-11), so a number has the same bits on every CPU, in
every batch shape and at every thread count. Small draws are bound by the number of torch calls:
hence lanes that ride in pairs. Words are uint32 bits held in int32; halves of a 64-bit product are
views of it (little-endian). Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3
(2011).
"""

import math

import torch
from torch import Tensor

_MULTIPLIER = torch.tensor((0xD2511F53, 0xCD9E8D57))
_WEYL = torch.tensor((0x9E3779B9, 0xBB67AE85))
_ROUND = torch.arange(10).view(10, 1)
_LOW = 0xFFFFFFFF
_SQRT_HALF = math.sqrt(0.5)
_ATANH = tuple(2.0 / (2 * i + 1) for i in range(7))
_SIN = tuple((-1.0) ** i / math.factorial(2 * i + 1) for i in range(7))
_COS = tuple((-1.0) ** i / math.factorial(2 * i) for i in range(8))


def philox_normal(keys: Tensor, n: int) -> Tensor:
    """Noise keys int64 [r, 6] -> standard normal float32 [r, n]; layout in the package."""
    rows, blocks = keys.shape[0], (n + 3) // 4
    seed, stream, chunk, modality, step = keys[:, :5].unbind(1)
    counter = keys.new_empty((4, rows, blocks))
    counter[0] = torch.arange(blocks, device=keys.device)
    last = ((modality & 0xFF) << 24) | (step & 0xFFFFFF)
    counter[1:] = torch.stack((chunk, stream, last)).unsqueeze(-1)
    words = philox(counter, torch.stack((seed, seed >> 32)).unsqueeze(-1))
    first, second = box_muller(words[0::2], words[1::2])
    pairs = torch.stack((first[0], second[0], first[1], second[1]), dim=-1)
    return pairs.flatten(1)[:, :n].float()


def philox(counter: Tensor, key: Tensor) -> Tensor:
    """Ten rounds over counter [4, r, b] and key [2, r, 1], words in int64 -> int32 [4, r, b].

    Only the low 32 bits of the arguments count.
    """
    device = counter.device
    multiplier = _MULTIPLIER.to(device).view(2, 1, 1)
    weyl = (_ROUND * _WEYL).to(device)
    keys = (key.squeeze(-1) + weyl.unsqueeze(-1)).flip(1).to(torch.int32).unsqueeze(-1)
    even = counter[0::2] & _LOW
    odd = counter[1::2].flip(0).to(torch.int32)  # in reverse: lane i meets product 1 - i
    for round_key in keys.unbind(0):
        halves = (even * multiplier).view(torch.int32)
        low, high = halves[..., 0::2], halves[..., 1::2]
        word = (high ^ odd).bitwise_xor_(round_key).flip(0)
        even, odd = word.view(torch.uint32).to(torch.int64), low
    return torch.stack((word[0], odd[1], word[1], odd[0]))


def box_muller(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two words (int32) -> two independent normal numbers in float64.

    Radius from u = (a + 2^31 + 1/2) / 2^32 in (0, 1), angle b / 2^31 half turns.
    """
    radius = _log((a.double() + (2.0**31 + 0.5)).mul_(2.0**-32)).mul_(-2.0).sqrt_()
    sine, cosine = _sincos(b.double().mul_(math.pi * 2.0**-31))
    return cosine.mul_(radius), sine.mul_(radius)


def _log(x: Tensor) -> Tensor:
    """Natural logarithm of normal positive float64: 2 atanh of the centred mantissa."""
    bits = x.view(torch.int64)
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | 0x3FE0000000000000).view(torch.float64)  # [1/2, 1)
    f = (mantissa - _SQRT_HALF).div_(mantissa + _SQRT_HALF)
    exponent = (bits >> 52).double().sub_(1022.5).mul_(math.log(2.0))
    return _horner(f * f, _ATANH).mul_(f).add_(exponent)


def _sincos(x: Tensor) -> tuple[Tensor, Tensor]:
    """Sine and cosine of float64 in [-pi, pi]: series of a quarter of the angle, doubled twice."""
    y = x * 0.25
    y2 = y * y
    sine, cosine = _horner(y2, _SIN).mul_(y), _horner(y2, _COS)
    for _ in range(2):
        sine, cosine = (sine * cosine).mul_(2.0), (sine * sine).mul_(-2.0).add_(1.0)
    return sine, cosine


def _horner(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    total = x * coefficients[-1]
    for c in reversed(coefficients[1:-1]):
        total.add_(c).mul_(x)
    return total.add_(coefficients[0])
