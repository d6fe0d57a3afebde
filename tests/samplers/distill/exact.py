"""The closed forms of gaussian.py as differentiable torch functions, with one number to learn.

Paths are written out again here, so that nothing of the rules judges itself.
"""

import math

import torch
from torch import Tensor

from onbeat.samplers.distill.rules.rule import Function, Query
from tests.samplers.distill.gaussian import Gaussian


def ab(data: Gaussian, t: Tensor) -> tuple[Tensor, Tensor]:
    if data.path.kind == "rf":
        return 1.0 - t, t
    if data.path.kind == "edm":
        return torch.ones_like(t), t
    return t.cos(), data.path.sigma_data * t.sin()


def spread(data: Gaussian, t: Tensor) -> Tensor:
    a, b = ab(data, t)
    return ((a * data.std).square() + b.square()).sqrt()


def consistency(data: Gaussian, bias: Tensor | float = 0.0) -> Function:
    """f, plus `bias` times b(t)."""

    def run(query: Query) -> dict[str, Tensor]:
        x, t = query.x["x"].double(), query.t["x"][:, None]
        a, b = ab(data, t)
        clean = data.mean + data.std / spread(data, t) * (x - a * data.mean)
        return {"x": (clean + bias * b).to(query.x["x"].dtype)}

    return run


def posterior(data: Gaussian, bias: Tensor | float = 0.0) -> Function:
    """The posterior mean, plus `bias` times b(t)."""

    def run(query: Query) -> dict[str, Tensor]:
        x, t = query.x["x"].double(), query.t["x"][:, None]
        a, b = ab(data, t)
        k = a * data.std**2 / spread(data, t).square()
        clean = data.mean + k * (x - a * data.mean) + bias * b
        return {"x": clean.to(query.x["x"].dtype)}

    return run


def mean_velocity(data: Gaussian, bias: Tensor | float = 0.0) -> Function:
    """u(x, t, r) on rectified flow, plus `bias`; at r = t the velocity."""

    def run(query: Query) -> dict[str, Tensor]:
        assert query.toward is not None
        x, t, r = query.x["x"].double(), query.t["x"][:, None], query.toward["x"][:, None]
        near = (t - r).abs() < 1e-9
        gap = torch.where(near, torch.ones_like(t), t - r)
        ratio = spread(data, r) / spread(data, t)
        there = (1.0 - r) * data.mean + ratio * (x - (1.0 - t) * data.mean)
        k = (t - (1.0 - t) * data.std**2) / spread(data, t).square()  # v = g'/g (x - a m) + a' m
        here = k * (x - (1.0 - t) * data.mean) - data.mean
        u = torch.where(near, here, (x - there) / gap)
        return {"x": (u + bias).to(query.x["x"].dtype)}

    return run


def velocity(data: Gaussian) -> Function:
    """The velocity at t, whatever r: a student that knows nothing of flow maps."""

    def run(query: Query) -> dict[str, Tensor]:
        x, t = query.x["x"].double(), query.t["x"][:, None]
        k = (t - (1.0 - t) * data.std**2) / spread(data, t).square()
        return {"x": (k * (x - (1.0 - t) * data.mean) - data.mean).to(query.x["x"].dtype)}

    return run


def sigmoid(u: float) -> float:
    return 1.0 / (1.0 + math.exp(-u))
