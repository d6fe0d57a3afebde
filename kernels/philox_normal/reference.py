"""Philox4x32-10 and Box-Muller in plain torch: the CPU path and the oracle of the Triton version.

Only integer operations and the four IEEE operations plus square root are used (logarithm, sine and
cosine are polynomials in float64), so a number has the same bits on every CPU, in every batch shape
and at every thread count. Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).
"""

import math

import torch
from torch import Tensor

_MULTIPLIER = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF
_ATANH = tuple(2.0 / (2 * i + 1) for i in range(9))
_SIN = tuple((-1.0) ** i / math.factorial(2 * i + 1) for i in range(8))
_COS = tuple((-1.0) ** i / math.factorial(2 * i) for i in range(9))


def philox_normal(keys: Tensor, n: int) -> Tensor:
    """Noise keys int64 [r, 6] -> standard normal float32 [r, n]; layout in the package."""
    blocks = torch.arange((n + 3) // 4, device=keys.device)
    seed, stream, chunk, modality, step = keys[:, :5, None].unbind(1)
    last = ((modality & 0xFF) << 24) | (step & 0xFFFFFF)
    counter = torch.broadcast_tensors(blocks, chunk & _LOW, stream & _LOW, last)
    words = philox(counter, (seed & _LOW, (seed >> 32) & _LOW))
    pairs = (*box_muller(words[0], words[1]), *box_muller(words[2], words[3]))
    return torch.stack(pairs, dim=-1).flatten(1)[:, :n].float()


def philox(counter: tuple[Tensor, ...], key: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Ten rounds: four counter words and two key words (uint32 held in int64) -> four words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLIER[0], c2 * _MULTIPLIER[1]
        c0, c2 = ((p1 >> 32) & _LOW) ^ c1 ^ k0, ((p0 >> 32) & _LOW) ^ c3 ^ k1
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return c0, c1, c2, c3


def box_muller(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two words (uint32 in int64) -> two independent normal numbers in float64."""
    radius = (-2.0 * _log((a.double() + 0.5) * 2.0**-32)).sqrt()
    sine, cosine = _sincos_turn(b)
    return radius * cosine, radius * sine


def _log(x: Tensor) -> Tensor:
    """Natural logarithm of normal positive float64, error below 1e-15 of the result's scale."""
    bits = x.view(torch.int64)
    exponent = ((bits + 0x95F619980C433) >> 52) - 1023
    m = (bits - (exponent << 52)).view(torch.float64)  # in [sqrt(1/2), sqrt(2))
    f = (m - 1.0) / (m + 1.0)
    return f * _horner(f * f, _ATANH) + exponent.double() * math.log(2.0)


def _sincos_turn(word: Tensor) -> tuple[Tensor, Tensor]:
    """Sine and cosine of word / 2^32 turns; the reduction to an eighth of a turn is exact."""
    quadrant = (word + 0x20000000) >> 30
    y = (word - (quadrant << 30)).double() * (2.0 * math.pi * 2.0**-32)
    y2 = y * y
    sine, cosine = y * _horner(y2, _SIN), _horner(y2, _COS)
    odd = (quadrant & 1) == 1
    sine_sign = 1.0 - (quadrant & 2).double()
    cosine_sign = 1.0 - ((quadrant + 1) & 2).double()
    return torch.where(odd, cosine, sine) * sine_sign, torch.where(odd, sine, cosine) * cosine_sign


def _horner(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    total = x * coefficients[-1]
    for c in reversed(coefficients[1:-1]):
        total = total.add_(c).mul_(x)
    return total.add_(coefficients[0])
