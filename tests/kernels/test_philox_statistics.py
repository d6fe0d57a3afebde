"""The noise as a random sequence: moments, shape, memory and independence of keys.

Two million numbers in ordinary runs; ten million with `-m slow`, with limits that shrink with the
square root of the count. All limits are five standard errors: a sound generator fails one in about
a million times, and keys are fixed, so that a pass stays a pass.
"""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import special

from onbeat.kernels.philox_normal import philox_normal

PIECE = 250_000
LAGS = (1, 2, 3, 4, 5, 7, 8, 16, 64, 1024, 4096)
SIGMAS = 5.0
COUNTS = [
    pytest.param(2_000_000, id="2e6"),
    pytest.param(10_000_000, id="1e7", marks=pytest.mark.slow),
]
Numbers = NDArray[np.float64]


def pieces(count: int, along: str) -> Numbers:
    """float64 [pieces, PIECE]: one long key, or a new key (chunk, then step) for every piece."""
    number = count // PIECE
    if along == "elements":
        key = torch.tensor([[11, 2, 3, 1, 4, 0]])
        return philox_normal(key, count)[0].view(number, PIECE).double().numpy()
    keys = torch.tensor([[11, 2, i, 1, i % 3, 0] for i in range(number)])
    return philox_normal(keys, PIECE).double().numpy()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("along", ["elements", "keys"])
def test_moments(count: int, along: str) -> None:
    z = pieces(count, along)
    limit = SIGMAS / math.sqrt(count)
    square = z * z
    mean, variance = z.mean(), square.mean() - z.mean() ** 2
    skew = (square * z).mean()
    kurtosis = (square * square).mean() / variance**2 - 3.0
    assert abs(mean) < limit
    assert abs(variance - 1.0) < limit * math.sqrt(2.0)
    assert abs(skew) < limit * math.sqrt(15.0)
    assert abs(kurtosis) < limit * math.sqrt(24.0)


@pytest.mark.parametrize("count", COUNTS)
def test_distribution(count: int) -> None:
    """Kolmogorov-Smirnov: the largest distance between the two distribution functions, against the
    distance that a true sample exceeds one in a million times."""
    z = np.sort(pieces(count, "elements").ravel())
    cdf = special.ndtr(z)
    steps = np.arange(count + 1) / count
    distance = max((cdf - steps[:-1]).max(), (steps[1:] - cdf).max())
    assert distance < math.sqrt(-0.5 * math.log(0.5e-6)) / math.sqrt(count)
    for limit in (3.0, 4.0, 4.5):  # the tails, which that distance hardly sees
        expected = count * special.ndtr(-limit)
        for found in (int((z > limit).sum()), int((z < -limit).sum())):
            assert abs(found - expected) < SIGMAS * math.sqrt(expected) + 1.0


@pytest.mark.parametrize("count", COUNTS)
def test_no_memory(count: int) -> None:
    """Correlation of each number, and of its square, with the one `lag` further on."""
    z = pieces(count, "elements").ravel()
    centred = z * z - 1.0
    for lag in LAGS:
        size = count - lag
        limit = SIGMAS / math.sqrt(size)
        assert abs(z[:-lag] @ z[lag:] / size) < limit, lag
        assert abs(centred[:-lag] @ centred[lag:] / size) < 2.0 * limit, lag


@pytest.mark.parametrize("count", COUNTS)
def test_keys_are_independent(count: int) -> None:
    """Keys that differ in one bit of one part: neither the numbers nor their squares correlate."""
    base = [11, 2, 3, 1, 4, 0]
    changes = [(0, 1), (0, 1 << 32), (0, 1 << 62), (1, 1), (1, 1 << 31), (2, 1), (2, 1 << 31)]
    changes += [(3, 1), (3, 1 << 7), (4, 1), (4, 1 << 15), (4, 1 << 23)]
    keys = [base]
    for column, bit in changes:
        keys.append([value ^ (bit if i == column else 0) for i, value in enumerate(base)])
    size = count // len(keys)
    z = philox_normal(torch.tensor(keys), size).double().numpy()
    for values in (z, z * z):
        correlation = np.corrcoef(values) - np.eye(len(keys))
        assert np.abs(correlation).max() < SIGMAS / math.sqrt(size)


@pytest.mark.parametrize("shape", [(1, 40_000), (40, 1000), (7, 4097), (3, 24_577), (1, 3)])
def test_equal_on_every_shape_of_batch(shape: tuple[int, int]) -> None:
    """Rows and elements alone, in any company, and across the pieces that the CPU version works
    in."""
    rows, n = shape
    keys = torch.tensor([[5, 6, row, 0, 1, 0] for row in range(rows)])
    together = philox_normal(keys, n).view(torch.int32)
    for row in {0, rows // 2, rows - 1}:
        alone = philox_normal(keys[row : row + 1], 50_000)[0, :n].view(torch.int32)
        assert torch.equal(alone, together[row])
