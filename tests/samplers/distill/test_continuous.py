"""Continuous-time rules: nothing to learn at the exact function, and gradients in closed form."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from onbeat.samplers.distill.rules.continuous import Continuous, LearnedWeight
from onbeat.samplers.distill.rules.rule import Models
from onbeat.samplers.distill.rules.tangents import Derivative
from onbeat.samplers.paths import Path
from tests.samplers.distill.exact import consistency, posterior
from tests.samplers.distill.gaussian import Affine, Gaussian, moment

TRIG = Gaussian(path=Path(kind="trig", sigma_data=0.5))
PATHS = [TRIG, Gaussian(path=Path(kind="rf")), Gaussian(path=Path(kind="edm"))]
STEP, WARM_UP = 60, 100
BIAS = 0.4
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
"""Torch's own modules for forward mode warn when they are first imported."""


def rule(data: Gaussian, derivative: Derivative = "jvp", taught: bool = False) -> Continuous:
    return Continuous(path=data.path, warm_up=WARM_UP, derivative=derivative, taught=taught)


def check_fixed_point(data: Gaussian, derivative: Derivative) -> None:
    """df/dt = 0 along the teacher's flow for the exact function, and only for it."""
    models = Models(student=consistency(data), teacher=posterior(data))
    distil = rule(data, derivative, taught=True)
    batch = data.clean(4000, 0)
    done = float(distil(models, batch, moment(1, WARM_UP)).value)
    other = Models(student=consistency(data, 0.3), teacher=posterior(data))
    far = float(distil(other, batch, moment(1, WARM_UP)).value)
    assert done < 1e-4 * far, (done, far)


@pytest.mark.parametrize("derivative", ["jvp", "difference"])
@pytest.mark.parametrize("data", PATHS, ids=lambda d: d.path.kind)
def test_nothing_is_left_to_learn_at_the_exact_function(
    data: Gaussian, derivative: Derivative
) -> None:
    check_fixed_point(data, derivative)


def output(t: float) -> Affine:
    """F of the untuned student: (cos t x - D(x, t)) / (0.5 sin t), plus a constant."""
    d = TRIG.posterior(t)
    return Affine((math.cos(t) - d.k) / (0.5 * math.sin(t)), BIAS - d.c / (0.5 * math.sin(t)))


def tangent_moments(t: float, r: float) -> tuple[float, float]:
    """Mean and standard deviation of one coordinate of g for data-driven dx/dt, from the formula:
    everything in it is affine in x0 = m + d u and z = 0.5 e."""
    f, h = output(t), 1e-6
    up, down = output(t + h), output(t - h)
    slope = Affine((up.k - down.k) / (2 * h), (up.c - down.c) / (2 * h))
    cos, sin = math.cos(t), math.sin(t)
    m, d, sd = TRIG.mean, TRIG.std, 0.5
    of = {}
    for name, x0, z in (("mean", m, 0.0), ("u", d, 0.0), ("e", 0.0, sd)):
        one = 1.0 if name == "mean" else 0.0
        x, dx = cos * x0 + sin * z, cos * z - sin * x0
        value = f.k * x + one * f.c
        change = slope.k * x + one * slope.c + f.k * dx
        of[name] = -(cos**2) * (sd * value - dx) - r * cos * sin * (x + sd * change)
    return of["mean"], math.hypot(of["u"], of["e"])


def expectations(r: float, c: float = 0.1) -> tuple[float, float]:
    """(loss, gradient by a constant added to F) where F is the student's own: E |g'|^2 / 2 and
    -2 E g'_1 with g' = g / (|g| + c), over two coordinates and over t."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    pair = weights[:, None] * weights[None] / weights.sum() ** 2
    grid = np.linspace(-5.0, 5.0, 160)
    density = np.exp(-0.5 * grid**2)
    loss = slope = 0.0
    for tau, chance in zip(grid.tolist(), (density / density.sum()).tolist(), strict=True):
        t = math.atan(math.exp(-1.0 + 1.4 * tau) / 0.5)
        mean, std = tangent_moments(t, r)
        first, second = mean + std * nodes[:, None], mean + std * nodes[None]
        size = np.sqrt(first**2 + second**2)
        loss += chance * float((pair * (size / (size + c)) ** 2).sum()) / 2.0
        slope += chance * float((pair * first / (size + c)).sum())
    return loss, -2.0 * slope


class Biased:
    """The untuned student with a constant added to F: x0 less 0.5 sin t times it."""

    def __init__(self) -> None:
        self.bias = torch.tensor(BIAS, requires_grad=True)

    def models(self) -> Models:
        return Models(student=posterior(TRIG, -self.bias))


def check_gradient(derivative: Derivative) -> None:
    losses, slopes = [], []
    for seed in range(10):
        student = Biased()
        train = rule(TRIG, derivative)
        value = train(student.models(), TRIG.clean(3000, seed), moment(seed + 50, STEP)).value
        losses.append(float(value.detach()))
        slopes.append(float(torch.autograd.grad(value, student.bias)[0]))
    loss, slope = expectations(STEP / WARM_UP)
    for got, want in ((losses, loss), (slopes, slope)):
        error = float(np.std(got)) / len(got) ** 0.5
        assert abs(float(np.mean(got)) - want) < 5.0 * error, (np.mean(got), want, error)
        assert error < 0.04 * abs(want), (want, error)


@pytest.mark.parametrize("derivative", ["jvp", "difference"])
def test_loss_and_gradient_are_the_formulas(derivative: Derivative) -> None:
    check_gradient(derivative)


def check_weighting() -> None:
    """e^w L - w of a constant weight."""
    student = Models(student=posterior(TRIG))
    batch, train = TRIG.clean(500, 3), rule(TRIG)
    plain = float(train(student, batch, moment(4)).value)

    def constant(t: Tensor) -> Tensor:
        return torch.full_like(t, 0.7)

    weighted = float(train(replace(student, weighting=constant), batch, moment(4)).value)
    assert abs(weighted - (math.exp(0.7) * plain - 0.7)) < 1e-5, (weighted, plain)


def test_the_learned_weight_enters_as_written() -> None:
    check_weighting()


def test_the_best_weight_is_minus_the_logarithm_of_the_loss() -> None:
    torch.manual_seed(0)
    weight = LearnedWeight()
    optimizer = torch.optim.Adam(weight.parameters(), lr=0.05)
    t = torch.linspace(0.1, 1.4, 50)
    losses = 0.2 + 0.1 * (2 * t).cos()
    for _ in range(300):
        w = weight(t)
        optimizer.zero_grad()
        (w.exp() * losses - w).mean().backward()
        optimizer.step()
    torch.testing.assert_close(weight(t), -losses.log(), atol=0.1, rtol=0.0)


def test_paths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="sigma_min"):
        Continuous(path=Path(kind="edm", sigma_min=0.002))
    with pytest.raises(ValueError, match="sigma_data is 1.0"):
        Continuous(path=Path(kind="trig", sigma_data=0.5), sigma_data=1.0)
