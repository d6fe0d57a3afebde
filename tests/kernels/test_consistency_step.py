"""The ragged consistency step: boundary rules exact, rows independent."""

import pytest
import torch
from torch import Tensor

from onbeat.kernels.consistency_step import Kind, consistency_step
from onbeat.kernels.philox_normal import philox_normal


def case(rows: int = 6, n: int = 101) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    make = torch.Generator().manual_seed(3)
    x, prediction = torch.randn(2, rows, n, generator=make)
    t = torch.linspace(1.0, 0.4, rows, dtype=torch.float64)
    s = t * torch.tensor([0.9, 0.0, 0.5]).repeat(rows)[:rows]
    keys = torch.tensor([[9, row, 4, 1, row + 1, 0] for row in range(rows)])
    return x, prediction, t, s, keys


def test_the_formula() -> None:
    x, v, t, s, keys = case()
    z = philox_normal(keys, x.shape[1]).double()
    clean = x.double() - t[:, None] * v.double()
    expected = (1 - s[:, None]) * clean + s[:, None] * z
    out = consistency_step(x, v, t, s, keys, "v")
    assert out.dtype == torch.float32
    assert torch.allclose(out.double(), expected, atol=1e-6)


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_s_zero_returns_x0_exactly(precision: torch.dtype) -> None:
    x, prediction, t, s, keys = case()
    out = consistency_step(x, prediction, t.to(precision), s.to(precision), keys)
    assert torch.equal(out[s == 0], prediction[s == 0])
    assert not torch.equal(out[s > 0], prediction[s > 0])


def test_s_zero_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from onbeat.kernels.consistency_step import reference

    drawn: list[int] = []

    def spy(keys: Tensor, n: int) -> Tensor:
        drawn.append(len(keys))
        return philox_normal(keys, n)

    monkeypatch.setattr(reference, "philox_normal", spy)
    x, prediction, t, s, keys = case()
    consistency_step(x, prediction, t, s, keys)
    assert sum(drawn) == int((s > 0).sum())


def test_boundary_f_of_x_at_zero_is_x() -> None:
    x, v, t, _, keys = case()
    zero = torch.zeros_like(t)
    assert torch.equal(consistency_step(x, v, zero, zero, keys, "v"), x)


@pytest.mark.parametrize("kind", ["x0", "v"])
def test_rows_equal_single_calls_bit_for_bit(kind: Kind) -> None:
    x, prediction, t, s, keys = case(rows=9)
    together = consistency_step(x, prediction, t, s, keys, kind)
    for i in range(9):
        one = slice(i, i + 1)
        alone = consistency_step(x[one], prediction[one], t[one], s[one], keys[one], kind)
        assert torch.equal(alone, together[one])


def test_fields_are_named() -> None:
    x, prediction, t, s, keys = case()
    with pytest.raises(ValueError, match="prediction is torch.bfloat16"):
        consistency_step(x, prediction.bfloat16(), t, s, keys)
    with pytest.raises(ValueError, match=r"s has shape \(5,\); allowed: \(6,\)"):
        consistency_step(x, prediction, t, s[:5], keys)
    with pytest.raises(ValueError, match="kind is 'eps'; allowed: x0, v"):
        consistency_step(x, prediction, t, s, keys, "eps")  # type: ignore[arg-type]
