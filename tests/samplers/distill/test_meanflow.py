"""MeanFlow: zero at the exact mean velocity, and the loss of an untuned student in closed form."""

import numpy as np
import pytest
import torch

from onbeat.samplers.distill.rules.meanflow import MeanFlow
from onbeat.samplers.distill.rules.rule import Models
from onbeat.samplers.distill.rules.tangents import Derivative
from onbeat.samplers.paths import Path
from tests.samplers.distill.exact import mean_velocity, posterior, sigmoid, velocity
from tests.samplers.distill.gaussian import Gaussian, moment

RF = Gaussian(path=Path(kind="rf"))
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
"""Torch's own modules for forward mode warn when they are first imported."""


def check_fixed_point(derivative: Derivative) -> None:
    train = MeanFlow(taught=True, derivative=derivative, power=0.0)
    batch = RF.clean(3000, 0)
    exact = Models(student=mean_velocity(RF), teacher=posterior(RF))
    other = Models(student=mean_velocity(RF, 0.1), teacher=posterior(RF))
    done = float(train(exact, batch, moment(1)).value)
    far = float(train(other, batch, moment(1)).value)
    assert done < 2e-3 * far, (done, far)


@pytest.mark.parametrize("derivative", ["jvp", "difference"])
def test_nothing_is_left_to_learn_at_the_exact_mean_velocity(derivative: Derivative) -> None:
    check_fixed_point(derivative)


def velocity_map(t: float) -> tuple[float, float]:
    """v(x, t) = k (x - a m) - m with k = (t - (1 - t) d^2) / g^2, as (k, constant)."""
    k = (t - (1.0 - t) * RF.std**2) / RF.spread(t) ** 2
    return k, -k * (1.0 - t) * RF.mean - RF.mean


def error_moments(t: float, r: float) -> tuple[float, float]:
    """Of one coordinate of u - v' + (t - r) (du/dt + k v'), with u the velocity at t and
    v' = z - x0: affine in x0 = m + d e1 and z = e2."""
    (k, c), h = velocity_map(t), 1e-6
    up, down = velocity_map(t + h), velocity_map(t - h)
    dk, dc = (up[0] - down[0]) / (2 * h), (up[1] - down[1]) / (2 * h)
    of = []
    for x0, z, one in ((RF.mean, 0.0, 1.0), (RF.std, 0.0, 0.0), (0.0, 1.0, 0.0)):
        x, v = (1.0 - t) * x0 + t * z, z - x0
        change = dk * x + one * dc + k * v
        of.append(k * x + one * c - v + (t - r) * change)
    return of[0], float(np.hypot(of[1], of[2]))


def expected(power: float, c: float) -> float:
    """E of L / (L + c)^power, L the sum of two squares, over t, r (equal in 3 of 4 rows)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    pair = weights[:, None] * weights[None] / weights.sum() ** 2
    chances = weights / weights.sum()
    total = 0.0
    for i, first in enumerate(nodes.tolist()):
        for j, second in enumerate(nodes.tolist()):
            one, two = sigmoid(-0.4 + first), sigmoid(-0.4 + second)
            t, r = max(one, two), min(one, two)
            for place, share in ((r, 0.25), (t, 0.75)):
                mean, std = error_moments(t, place)
                squares = (mean + std * nodes[:, None]) ** 2 + (mean + std * nodes[None]) ** 2
                value = float((pair * squares / (squares + c) ** power).sum())
                total += chances[i] * chances[j] * share * value
    return total


def check_value(power: float, c: float = 0.3) -> None:
    train = MeanFlow(power=power, c=c)
    models = Models(student=velocity(RF))
    got = [float(train(models, RF.clean(4000, s), moment(s + 20)).value) for s in range(10)]
    error = float(np.std(got)) / len(got) ** 0.5
    want = expected(power, c)
    assert error < 0.02 * want and abs(float(np.mean(got)) - want) < 5 * error, (got, want, error)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_loss_of_a_plain_flow_model(power: float) -> None:
    check_value(power)


def test_the_divisor_has_no_gradient() -> None:
    bias = torch.zeros((), requires_grad=True)
    train = MeanFlow(power=1.0, same=1.0)
    value = train(Models(student=mean_velocity(RF, bias)), RF.clean(64, 0), moment(3)).value
    (slope,) = torch.autograd.grad(value, bias)
    plain = MeanFlow(power=0.0, same=1.0)
    rows = [
        float(plain(Models(student=mean_velocity(RF, b)), RF.clean(64, 0), moment(3)).value)
        for b in (-1e-2, 1e-2)
    ]
    assert float(slope) * (rows[1] - rows[0]) > 0.0 and abs(float(slope)) > 1e-4
