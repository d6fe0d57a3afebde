"""Philox4x32-10 and Box-Muller in numpy: the CPU path and the oracle of the Triton version.

Only integer operations, the four IEEE operations and square root are used (logarithm, sine and
cosine are polynomials in float64, good to 1e-9), so a number has the same bits on every CPU and in
every batch shape. numpy and not torch, because small draws are bound by the cost of a call: a third
of it here, for the same bits. Even and odd words ride in pairs; the halves of a 64-bit product are
views of it (little-endian). Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3
(2011).
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MULTIPLIER = np.array((0xD2511F53, 0xCD9E8D57), dtype=np.uint64).reshape(2, 1, 1)
_WEYL = np.array((0x9E3779B9, 0xBB67AE85), dtype=np.uint64)
_WEYL_OF_ROUND = (np.arange(10, dtype=np.uint64)[:, None] * _WEYL).astype(np.uint32)
_SQRT_HALF = math.sqrt(0.5)
BLOCKS_AT_ONCE = 6144
"""More, and the temporary arrays leave the processor's cache and are mapped anew each time."""
_ATANH = tuple(2.0 / (2 * i + 1) for i in range(7))
_SIN = tuple((-1.0) ** i / math.factorial(2 * i + 1) for i in range(7))
_COS = tuple((-1.0) ** i / math.factorial(2 * i) for i in range(8))

Doubles = NDArray[np.float64]


def philox_normal(keys: Tensor, n: int) -> Tensor:
    """Noise keys int64 [r, 6] -> standard normal float32 [r, n]; layout in the package."""
    rows, blocks = keys.shape[0], (n + 3) // 4
    out = np.empty((rows, blocks, 4), dtype=np.float32)
    columns = keys.cpu().numpy().T
    width = min(max(blocks, 1), BLOCKS_AT_ONCE)
    height = BLOCKS_AT_ONCE // width
    for top in range(0, rows, height):
        part = slice(top, top + height)
        for first in range(0, blocks, width):
            wide = slice(first, first + width)
            _fill(out[part, wide], columns[:, part], first)
    return torch.from_numpy(out.reshape(rows, 4 * blocks)[:, :n]).to(keys.device)


def _fill(out: NDArray[np.float32], columns: NDArray[np.int64], first: int) -> None:
    """The numbers of blocks `first` and on, out [r, b, 4], of keys [6, r]."""
    words = columns.astype(np.uint32)  # modulo 2^32, like the masks of the layout
    seed, stream, chunk, modality, step, _ = words
    counter = np.empty((4, *out.shape[:2]), dtype=np.uint32)
    counter[0] = np.arange(first, first + out.shape[1], dtype=np.uint32)
    counter[1] = chunk[:, None]
    counter[2] = stream[:, None]
    counter[3] = ((modality << 24) | (step & 0xFFFFFF))[:, None]
    key = np.empty((2, len(seed)), dtype=np.uint32)
    key[0] = seed
    key[1] = columns[0] >> 32
    even, odd = philox(counter, key)
    cosine, sine = box_muller(even, odd)
    out[..., 0::2], out[..., 1::2] = cosine.transpose(1, 2, 0), sine.transpose(1, 2, 0)


def philox(
    counter: NDArray[np.uint32], key: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Ten rounds: counter [4, r, b], key [2, r] -> words (0, 2) and (1, 3), each [2, r, b]."""
    keys = (key + _WEYL_OF_ROUND[:, :, None])[:, ::-1, :, None]
    shape = (2, *counter.shape[1:])
    products, word = np.empty((2, *shape), dtype=np.uint64), np.empty(shape, dtype=np.uint32)
    halves = products.view(np.uint32)
    parts = [(products[i], halves[i, ..., 1::2], halves[i, ..., 0::2]) for i in (0, 1)]
    even, odd, turned = counter[0::2].astype(np.uint64), counter[3::-2], word[::-1]
    for turn, round_key in enumerate(keys):  # `odd` is in reverse: lane i meets product 1 - i
        product, high, low = parts[turn % 2]
        np.multiply(even, _MULTIPLIER, out=product)
        np.bitwise_xor(high, odd, out=word)
        np.bitwise_xor(word, round_key, out=word)
        np.copyto(even, turned)
        odd = low
    return turned, odd[::-1]


def box_muller(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> tuple[Doubles, Doubles]:
    """Two words -> two independent normal numbers in float64.

    Read as signed: radius from u = (a + 2^31 + 1/2) / 2^32 in (0, 1), angle b / 2^31 half turns.
    """
    unit = a.view(np.int32).astype(np.float64)
    unit += 2.0**31 + 0.5
    unit *= 2.0**-32
    radius = _log(unit)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    sine, cosine = _sincos(b.view(np.int32).astype(np.float64) * (math.pi * 2.0**-31))
    cosine *= radius
    sine *= radius
    return cosine, sine


def _log(x: Doubles) -> Doubles:
    """Natural logarithm of normal positive float64: 2 atanh of the centred mantissa."""
    bits = x.view(np.int64)
    mantissa: Doubles = ((bits & 0xFFFFFFFFFFFFF) | 0x3FE0000000000000).view(np.float64)  # [1/2, 1)
    f = (mantissa - _SQRT_HALF) / (mantissa + _SQRT_HALF)
    exponent = (bits >> 52) - 1022.5
    exponent *= math.log(2.0)
    total = _horner(f * f, _ATANH)
    total *= f
    total += exponent
    return total


def _sincos(x: Doubles) -> tuple[Doubles, Doubles]:
    """Sine and cosine of float64 in [-pi, pi]: series of a quarter of the angle, doubled twice."""
    y = x * 0.25
    y2 = y * y
    sine, cosine = _horner(y2, _SIN), _horner(y2, _COS)
    sine *= y
    for _ in range(2):
        double = sine * cosine
        double *= 2.0
        sine *= sine
        sine *= -2.0
        sine += 1.0
        sine, cosine = double, sine
    return sine, cosine


def _horner(x: Doubles, coefficients: tuple[float, ...]) -> Doubles:
    total = x * coefficients[-1]
    for c in reversed(coefficients[1:-1]):
        total += c
        total *= x
    total += coefficients[0]
    return total
