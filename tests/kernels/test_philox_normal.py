"""Counter-based noise: known words, sound statistics, independence of everything but the key."""

import numpy as np
import pytest
import torch
from scipy import stats

from onbeat.kernels.philox_normal import philox_normal
from onbeat.kernels.philox_normal.reference import box_muller, philox

MILLION = 1_000_000
GOLDEN = [1072064063, 1048917321, -1090053622, 1069762436]
"""Bits of four numbers: a change here breaks every saved stream."""


def key(
    seed: int = 1, stream: int = 2, chunk: int = 3, modality: int = 0, step: int = 0
) -> list[int]:
    return [seed, stream, chunk, modality, step, 0]


@pytest.mark.parametrize(
    ("counter", "seed", "words"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_known_answers_of_random123(counter: list[int], seed: list[int], words: list[int]) -> None:
    even, odd = philox(
        np.array(counter, dtype=np.uint32).reshape(4, 1, 1),
        np.array(seed, dtype=np.uint32).reshape(2, 1),
    )
    assert [int(word[i, 0, 0]) for i in (0, 1) for word in (even, odd)] == words


def test_box_muller_agrees_with_numpy() -> None:
    a, b = np.random.default_rng(0).integers(0, 2**32, (2, 100_000), dtype=np.uint32)
    radius = np.sqrt(-2 * np.log((a.view(np.int32) + 2.0**31 + 0.5) / 2**32))
    angle = b.view(np.int32) * np.pi / 2**31
    cosine, sine = box_muller(a, b)
    assert np.abs(cosine - radius * np.cos(angle)).max() < 1e-9
    assert np.abs(sine - radius * np.sin(angle)).max() < 1e-9


def test_extreme_words_stay_finite() -> None:
    edge = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], dtype=np.uint32)
    cosine, sine = box_muller(edge, edge)
    assert np.isfinite(cosine).all() and np.isfinite(sine).all()
    assert np.hypot(cosine, sine).max() < 7.0


def test_moments_and_distribution_of_a_million_numbers() -> None:
    z = philox_normal(torch.tensor([key()]), MILLION)[0].double().numpy()
    assert abs(z.mean()) < 0.005
    assert abs(z.var() - 1.0) < 0.007
    assert abs(stats.skew(z)) < 0.012
    assert abs(stats.kurtosis(z)) < 0.025
    assert stats.kstest(z, "norm").pvalue > 1e-3
    for lag in (1, 2, 3, 4):
        assert abs(np.corrcoef(z[:-lag], z[lag:])[0, 1]) < 0.005


def test_neighbouring_keys_are_uncorrelated() -> None:
    keys = [
        key(),
        key(seed=2),
        key(seed=1 + 2**32),
        key(stream=3),
        key(chunk=4),
        key(modality=1),
        key(step=1),
        key(step=0xFFFF),
    ]
    correlation = np.corrcoef(philox_normal(torch.tensor(keys), MILLION // 4).numpy())
    assert np.abs(correlation - np.eye(len(keys))).max() < 0.01


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_depend_on_the_key_alone(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        keys = torch.tensor([key(chunk=i, step=i % 5) for i in range(9)])
        together = philox_normal(keys, 4097)
        for i in range(9):
            assert torch.equal(philox_normal(keys[i : i + 1], 4097)[0], together[i])
        assert torch.equal(philox_normal(keys, 10), together[:, :10])
        assert torch.equal(philox_normal(keys.flip(0), 4097), together.flip(0))
    finally:
        torch.set_num_threads(before)


def test_the_numbers_never_change() -> None:
    z = philox_normal(torch.tensor([key(seed=1234, stream=5, chunk=6, modality=1, step=2)]), 4)
    assert z.view(torch.int32).tolist() == [GOLDEN]


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"keys is torch.int64 \(1, 5\)"):
        philox_normal(torch.zeros(1, 5, dtype=torch.int64), 4)
    assert philox_normal(torch.zeros(0, 6, dtype=torch.int64), 4).shape == (0, 4)
