"""The ragged step: what the coefficients mean, ends exact, rows independent."""

from math import inf

import pytest
import torch
from torch import Tensor

from onbeat.kernels.consistency_step import consistency_step
from onbeat.kernels.philox_normal import philox_normal

PATTERNS = (
    (0.0, 1.0, inf, 0.0, 0.25, 0.75),  # x0, re-noised
    (0.0, 1.0, inf, 0.0, 1.0, 0.0),  # x0, the end
    (1.0, -0.7, inf, 0.0, 0.4, 0.6),  # velocity
    (14.6, -14.5, inf, 0.3, 0.5, 0.2),  # noise, part of the way without new noise
    (0.2, 0.5, 1.0, 0.0, 1.0, 3.0),  # clipped
    (1.0, -0.2, 0.5, 0.5, 0.5, 0.0),  # clipped, without noise
    (1.0, 0.0, inf, 0.0, 1.0, 0.0),  # x as it is
    (0.0, 1.0, inf, 0.0, 0.0, 2.0),  # noise alone
)
"""clean_x, clean_prediction, clip, next_x, next_clean, noise."""


def case(rows: int = 8, n: int = 101) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    make = torch.Generator().manual_seed(3)
    x, prediction = torch.randn(2, rows, n, generator=make)
    table = torch.tensor((PATTERNS * rows)[:rows], dtype=torch.float64)
    keys = torch.tensor([[9, row, 4, 1, row + 1, 0] for row in range(rows)])
    return x, prediction, table, keys


def test_the_formula() -> None:
    x, prediction, table, keys = case()
    z = philox_normal(keys, x.shape[1]).double()
    clean_x, clean_p, clip, next_x, next_clean, noise = table[:, :, None].unbind(1)
    expected = (clean_x * x.double() + clean_p * prediction.double()).clamp(-clip, clip)
    after, clean = consistency_step(x, prediction, table, keys)
    assert after.dtype == clean.dtype == torch.float32
    assert torch.allclose(clean.double(), expected, atol=5e-6)
    expected = next_clean * expected + next_x * x.double() + noise * z
    assert torch.allclose(after.double(), expected, atol=5e-6)


def test_the_end_is_the_clean_latents_exactly_and_draws_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from onbeat.kernels.consistency_step import reference

    drawn: list[int] = []

    def spy(keys: Tensor, n: int) -> Tensor:
        drawn.append(len(keys))
        return philox_normal(keys, n)

    monkeypatch.setattr(reference, "philox_normal", spy)
    x, prediction, table, keys = case()
    after, clean = consistency_step(x, prediction, table, keys)
    assert torch.equal(after[1], prediction[1]) and torch.equal(clean[1], prediction[1])
    assert sum(drawn) == int((table[:, 5] > 0).sum())


def test_what_is_left_out_does_no_harm() -> None:
    x, prediction, table, keys = case()
    x[:2], prediction[6] = inf, inf
    after, _ = consistency_step(x, prediction, table, keys)
    assert torch.isfinite(after[[0, 1, 6]]).all() and torch.equal(after[6], x[6])


def test_inputs_do_not_change() -> None:
    x, prediction, table, keys = case()
    before = x.clone(), prediction.clone()
    consistency_step(x, prediction, table, keys)
    consistency_step(x[:1], prediction[:1], table[:1], keys[:1])
    assert torch.equal(x, before[0]) and torch.equal(prediction, before[1])


def test_rows_equal_single_calls_bit_for_bit() -> None:
    x, prediction, table, keys = case(rows=13)
    together = consistency_step(x, prediction, table, keys)
    for i in range(13):
        one = slice(i, i + 1)
        alone = consistency_step(x[one], prediction[one], table[one], keys[one])
        for a, b in zip(alone, together, strict=True):
            assert torch.equal(a[0].view(torch.int32), b[i].view(torch.int32))


def test_fields_are_named() -> None:
    x, prediction, table, keys = case()
    with pytest.raises(ValueError, match="prediction is torch.bfloat16"):
        consistency_step(x, prediction.bfloat16(), table, keys)
    with pytest.raises(ValueError, match=r"coefficients has shape \(5, 6\); allowed: \(8, 6\)"):
        consistency_step(x, prediction, table[:5], keys)
    with pytest.raises(ValueError, match="coefficients is torch.float32"):
        consistency_step(x, prediction, table.float(), keys)
    assert consistency_step(x[:0], prediction[:0], table[:0], keys[:0])[0].shape == (0, 101)
