"""Averages of weights against sums written out, and averages made after the run."""

import pytest
import torch
from torch import Tensor, nn

from onbeat.samplers.distill.training.average import (
    Snapshot,
    blend,
    constant,
    gamma_of,
    power,
    synthesis,
    update,
    warmed,
)


def walk(steps: int) -> list[Tensor]:
    g = torch.Generator().manual_seed(0)
    return list(torch.randn(steps, 4, generator=g, dtype=torch.float64).cumsum(0))


def averaged(values: list[Tensor], width: float) -> Tensor:
    decay, kept = power(width), torch.zeros(4, dtype=torch.float64)
    for step, value in enumerate(values):
        kept = kept + (1.0 - decay(step)) * (value - kept)
    return kept


def test_a_constant_average_is_the_geometric_sum() -> None:
    average, net = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    nn.init.zeros_(average.weight)
    nn.init.ones_(net.weight)
    for step in range(5):
        update(average, net, constant(0.9)(step))
    assert abs(float(average.weight.detach()) - (1 - 0.9**5)) < 1e-6


def test_a_warmed_average_forgets_its_start() -> None:
    assert warmed(0.99)(0) == 0.1 and warmed(0.99)(10_000) == 0.99
    with pytest.raises(ValueError, match="decay is 1.0"):
        constant(1.0)


def check_width(width: float = 0.1) -> None:
    """The profile (gamma + 1) tau^gamma on 0..1 has this standard deviation."""
    gamma = gamma_of(width)
    mean, square = (gamma + 1) / (gamma + 2), (gamma + 1) / (gamma + 3)
    assert abs((square - mean**2) ** 0.5 - width) < 1e-9
    steps = 4000
    line = [torch.full((4,), i / steps, dtype=torch.float64) for i in range(steps)]
    assert abs(float(averaged(line, width)[0]) - mean) < 2e-3


@pytest.mark.parametrize("width", [0.05, 0.1, 0.2])
def test_the_width_of_a_power_average_is_what_was_asked_for(width: float) -> None:
    check_width(width)


def test_an_average_that_was_not_kept_is_made_afterwards() -> None:
    values = walk(2000)
    kept = [Snapshot(w, n) for w in (0.05, 0.1) for n in range(125, 2001, 125)]
    states = [{"p": averaged(values[: s.updates], s.width)} for s in kept]
    for width in (0.06, 0.08, 0.12):
        made = blend(states, synthesis(kept, Snapshot(width, 2000)))["p"]
        want = averaged(values, width)
        other = averaged(values, 0.05 if width > 0.08 else 0.1)
        assert (made - want).norm() < 0.1 * (other - want).norm()
    with pytest.raises(ValueError, match="updates is 2001"):
        synthesis(kept, Snapshot(0.1, 2001))
