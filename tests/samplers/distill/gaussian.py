"""Gaussian data, for which everything that a rule should learn is known in closed form.

Derivation. Let x0 ~ N(m, d^2) in every coordinate and x_t = a x0 + b z. Then x_t ~ N(a m, g^2) with
g^2 = a^2 d^2 + b^2, and by the regression of jointly normal variables the posterior mean is

    D(x, t) = m + a d^2 / g^2 (x - a m)                                               (1)

The probability flow is dx/dt = a' D + b' (x - a D) / b. For y = (x - a m) / g, use (1):

    dx/dt - a' m = a' a d^2 / g^2 (x - a m) + b' / b (1 - a^2 d^2 / g^2) (x - a m)
                 = (a' a d^2 + b' b) / g^2 (x - a m) = g' / g (x - a m)

because 1 - a^2 d^2 / g^2 = b^2 / g^2 and g g' = a a' d^2 + b b'. So dy/dt = 0: the flow keeps y

    flow(x, t, r) = a_r m + g_r / g_t (x - a_t m)                                     (2)
    f(x, t) = flow(x, t, clean),  u(x, t, r) = (x - flow(x, t, r)) / (t - r)          (3)

u is the mean velocity of a flow map. All of these are affine in x: x -> k x + c. A rule's expected
loss for affine students is then an integral over one or two normals (`expected_loss`), worked out
here in numpy from the scalar paths, without any code of the rules.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from onbeat.samplers.distill.rules.rule import Batch, Function, Moment, Query
from onbeat.samplers.paths import Path

DIM = 2
"""Numbers in a row's vector."""


class Affine(NamedTuple):
    """x -> k x + c."""

    k: float
    c: float

    def after(self, first: "Affine") -> "Affine":
        return Affine(self.k * first.k, self.k * first.c + self.c)

    def plus(self, other: "Affine", times: float = 1.0) -> "Affine":
        return Affine(self.k + times * other.k, self.c + times * other.c)

    def scaled(self, by: float) -> "Affine":
        return Affine(by * self.k, by * self.c)


IDENTITY = Affine(1.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """N(mean, std^2) on a path."""

    path: Path
    mean: float = 0.7
    std: float = 0.5

    def spread(self, t: float) -> float:
        a, b = self.path.scales(t)
        return float(np.hypot(a * self.std, b))

    def posterior(self, t: float) -> Affine:
        a, _ = self.path.scales(t)
        k = a * self.std**2 / self.spread(t) ** 2
        return Affine(k, self.mean * (1.0 - k * a))

    def flow(self, t: float, r: float) -> Affine:
        k = self.spread(r) / self.spread(t)
        return Affine(k, self.mean * (self.path.scales(r)[0] - k * self.path.scales(t)[0]))

    def consistency(self, t: float) -> Affine:
        return self.flow(t, self.path.clean)

    def mean_velocity(self, t: float, r: float) -> Affine:
        return IDENTITY.plus(self.flow(t, r), -1.0).scaled(1.0 / (t - r))

    def velocity(self, t: float) -> Affine:
        """dx/dt, as the derivative of (2) by its target time, in the middle of two near ones."""
        h = 1e-6
        return self.flow(t, t + h).plus(self.flow(t, t - h), -1.0).scaled(0.5 / h)

    def clean(self, rows: int, seed: int, dim: int = DIM) -> Batch:
        g = torch.Generator().manual_seed(seed)
        return Batch(clean={"x": self.mean + self.std * torch.randn(rows, dim, generator=g)})


AffineOf = Callable[[float, float], Affine]
"""(time, guidance scale) -> the map that a network does there."""


def function(of: AffineOf, unprompted: AffineOf | None = None) -> Function:
    """A network that does the affine map of every row's time (and scale)."""

    def run(query: Query) -> dict[str, Tensor]:
        out = {}
        for name, x in query.x.items():
            t = query.t[name]
            s = torch.ones(t.shape) if query.scale is None else query.scale
            chosen = of if query.prompted or unprompted is None else unprompted
            pairs = zip(t.flatten().tolist(), s.flatten().tolist(), strict=True)
            cache: dict[tuple[float, float], Affine] = {}
            maps = [cache.setdefault(p, chosen(*p)) for p in pairs]
            k, c = torch.tensor(maps, dtype=torch.float64).view(*t.shape, 2).unbind(-1)
            out[name] = (k[..., None] * x + c[..., None]).to(x.dtype)
        return out

    return run


def euler_map(path: Path, t: float, r: float, x0: Affine) -> Affine:
    """a_r x0 + b_r (x - a_t x0) / b_t."""
    (a_t, b_t), (a_r, b_r) = path.scales(t), path.scales(r)
    return x0.scaled(a_r - a_t * b_r / b_t).plus(IDENTITY, b_r / b_t)


def heun_map(t: float, r: float, x0: Callable[[float], Affine]) -> Affine:
    """Karras et al. (2022), algorithm 1, on sigma: slopes (x - D) / sigma at both ends."""
    first = IDENTITY.plus(x0(t), -1.0).scaled(1.0 / t)
    ahead = IDENTITY.plus(first, r - t)
    if r == 0.0:
        return ahead
    second = ahead.plus(x0(r).after(ahead), -1.0).scaled(1.0 / r)
    return IDENTITY.plus(first.plus(second), 0.5 * (r - t))


class Pair(NamedTuple):
    t: float
    r: float
    chance: float


def error_moments(
    data: Gaussian, pair: Pair, student: Affine, target: Affine, step: Affine | None
) -> tuple[float, float]:
    """Mean and standard deviation of one coordinate of student(x_t) - target(x_r)."""
    (a_t, b_t), (a_r, b_r) = data.path.scales(pair.t), data.path.scales(pair.r)
    if step is not None:
        apart = student.plus(target.after(step), -1.0)
        return apart.k * a_t * data.mean + apart.c, abs(apart.k) * data.spread(pair.t)
    mean = student.k * a_t * data.mean + student.c - target.k * a_r * data.mean - target.c
    of_data = (student.k * a_t - target.k * a_r) * data.std
    return mean, float(np.hypot(of_data, student.k * b_t - target.k * b_r))


def expected_distance(kind: str, c: float, mean: float, std: float) -> float:
    """E of the distance of a vector of DIM = 2 independent normal coordinates."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(48)
    e = mean + std * nodes
    both = weights[:, None] * weights[None] / weights.sum() ** 2
    squares = e[:, None] ** 2 + e[None] ** 2
    value = squares / DIM if kind == "square" else np.sqrt(squares + c * c) - c
    return float((both * value).sum())


def expected_loss(
    data: Gaussian,
    pairs: Sequence[Pair],
    student: AffineOf,
    *,
    step: Callable[[float, float, float], Affine] | None = None,
    kind: str = "square",
    c: float = 0.0,
    weight: Callable[[float, float], float] = lambda t, r: 1.0,
    scales: Sequence[tuple[float, float]] = ((1.0, 1.0),),
) -> float:
    """Sum over pairs and guidance scales (value, chance) of weight E distance; the target is the
    student itself, and x itself at the clean time."""
    total = 0.0
    for pair in pairs:
        t, r, chance = pair
        for s, share in scales:
            target = student(r, s) if r > data.path.clean else IDENTITY
            taught = None if step is None else step(t, r, s)
            moments = error_moments(data, pair, student(t, s), target, taught)
            total += chance * share * weight(t, r) * expected_distance(kind, c, *moments)
    return total


def moment(seed: int, step: int = 0, steps: int = 100) -> Moment:
    return Moment(step=step, steps=steps, generator=torch.Generator().manual_seed(seed))
