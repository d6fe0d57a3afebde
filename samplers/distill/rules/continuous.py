"""Continuous-time consistency training and distillation on trigonometric time (sCM).

With x_t = cos t x0 + sin t z, z of scale sigma_data, and f = cos t x - sin t sigma_data F(x, t),
the limit of the consistency loss for ever nearer times is a regression of F on F + g,

    g = -cos^2 t (sigma_data F - dx/dt) - r cos t sin t (x + sigma_data dF/dt),

everything in g without gradient; r warms up from 0 to 1, g is divided by |g| + c. dx/dt is that of
the data (training) or of a teacher (distillation). A network on another path is asked there and
its answer turned into F (rCM). Sources: Lu and Song, sCM (2024), algorithm 1; Zheng et al., rCM
(2025).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from onbeat.samplers.distill.rules.consistency import same_dropout
from onbeat.samplers.distill.rules.curricula import ramp
from onbeat.samplers.distill.rules.flow import mix, slopes, velocity
from onbeat.samplers.distill.rules.rule import (
    Batch,
    Function,
    Latents,
    Loss,
    Models,
    Moment,
    Query,
    Times,
    noise_like,
    spread,
    total,
)
from onbeat.samplers.distill.rules.tangents import Derivative, Point, along
from onbeat.samplers.paths import Path


@dataclass(frozen=True, kw_only=True)
class Continuous:
    """See the module. path: where the functions are (trig of scale `sigma_data`, rf or edm).

    mean, std: of ln(sigma_data tan t). warm_up: steps until r is 1. c: of the tangent's
    normalisation, over a row's whole vector. taught: dx/dt from `models.teacher`.
    """

    path: Path
    sigma_data: float = 0.5
    row_axes: int = 1
    mean: float = -1.0
    std: float = 1.4
    warm_up: int = 10_000
    c: float = 0.1
    taught: bool = False
    derivative: Derivative = "jvp"
    half_step: float = 1e-3

    def __post_init__(self) -> None:
        if self.path.kind == "vp" or self.path.sigma_min > 0.0:
            raise ValueError(f"path is {self.path}; allowed: trig, rf, or edm without sigma_min")
        if self.path.kind == "trig" and self.path.sigma_data != self.sigma_data:
            raise ValueError(
                f"sigma_data is {self.sigma_data}; allowed: the path's, {self.path.sigma_data}"
            )

    @property
    def trig(self) -> Path:
        return Path(kind="trig", sigma_data=self.sigma_data)

    def __call__(self, models: Models, batch: Batch, moment: Moment) -> Loss:
        clean, g = batch.clean, moment.generator
        rows = batch.rows(self.row_axes)
        normal = torch.randn(rows, generator=g, dtype=torch.float64)
        time = ((self.mean + self.std * normal).exp() / self.sigma_data).atan()
        t = dict.fromkeys(clean, time)
        noise = noise_like(clean, g)
        x = {n: mix(self.trig, c, noise[n], time) for n, c in clean.items()}
        student = trig_function(models.student, self.path, self.sigma_data)
        seed = int(torch.randint(2**31, (), generator=g))
        with torch.no_grad():
            speed = self._speed(models, x, t, (clean, noise))
        with same_dropout(seed):
            old, slope = self._tangent(student, x, t, speed)
        goals = {n: self._goal(x[n], old[n], speed[n], slope[n], time, moment) for n in x}
        with same_dropout(seed):
            now = student({"x": x, "t": t})
        parts = {n: self._part(models, now[n], goals[n], batch, n, time) for n in x}
        return Loss(value=total(parts, {}), metrics=_sizes(goals, old))

    def _speed(
        self, models: Models, x: Latents, t: Times, data: tuple[Latents, Latents]
    ) -> dict[str, Tensor]:
        """dx/dt on trigonometric time."""
        if self.taught:
            ask = trig_clean(models.need("teacher"), self.path, self.sigma_data)
            x0 = ask({"x": dict(x), "t": dict(t)})
            return {n: velocity(self.trig, x[n], x0[n], t[n]) for n in x}
        clean, noise = data
        a, b = slopes(self.trig, next(iter(t.values())))
        return {n: spread(a, c) * c + spread(b, c) * noise[n] for n, c in clean.items()}

    def _tangent(
        self, student: Callable[[Point], dict[str, Tensor]], x: Latents, t: Times, speed: Latents
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """(F, cos t sin t dF/dt): the direction is scaled before the derivative is taken, which
        keeps it small near pure noise."""
        both = {n: v.cos() * v.sin() for n, v in t.items()}
        direction = {"x": {n: spread(both[n], s) * s for n, s in speed.items()}, "t": both}
        at = {"x": dict(x), "t": dict(t)}
        return along(student, at, direction, self.derivative, self.half_step)

    def _goal(
        self, x: Tensor, old: Tensor, speed: Tensor, slope: Tensor, t: Tensor, moment: Moment
    ) -> Tensor:
        """F + g / (|g| + c); `slope` is cos t sin t dF/dt."""
        r, sd = ramp(moment.step, self.warm_up), self.sigma_data
        cos2, both = spread(t.cos().square(), x), spread(t.cos() * t.sin(), x)
        g = -cos2 * (sd * old - speed) - r * (both * x + sd * slope)
        size = g.flatten(self.row_axes).norm(dim=-1)
        return (old + g / spread(size + self.c, g)).detach()

    def _part(
        self, models: Models, now: Tensor, goal: Tensor, batch: Batch, name: str, t: Tensor
    ) -> Tensor:
        squares = batch.weighted(name, (now - goal).square()).flatten(self.row_axes).mean(-1)
        if models.weighting is None:
            return squares.mean()
        weight = models.weighting(t).to(squares)
        return (weight.exp() * squares - weight).mean()


def trig_clean(
    function: Function, path: Path, sigma_data: float
) -> Callable[[Point], dict[str, Tensor]]:
    """x0 at trigonometric x and t, from a function on `path`: asked where noise over signal is the
    same, with x scaled to that path."""

    def ask(at: Point) -> dict[str, Tensor]:
        if path.kind == "trig":
            return dict(function(Query(x=at["x"], t=at["t"])))
        x, times = {}, {}
        for name, t in at["t"].items():
            whole = t.cos() + (sigma_data * t.sin() if path.kind == "rf" else 0.0)
            times[name] = sigma_data * t.sin() / whole
            x[name] = at["x"][name] / spread(whole, at["x"][name])
        return dict(function(Query(x=x, t=times)))

    return ask


def trig_function(
    function: Function, path: Path, sigma_data: float
) -> Callable[[Point], dict[str, Tensor]]:
    """F = (cos t x - x0) / (sigma_data sin t) at trigonometric x and t, t above 0."""
    ask = trig_clean(function, path, sigma_data)

    def run(at: Point) -> dict[str, Tensor]:
        out = {}
        for name, x0 in ask(at).items():
            t, x = at["t"][name], at["x"][name]
            out[name] = (spread(t.cos(), x) * x - x0) / spread(sigma_data * t.sin(), x)
        return out

    return run


class LearnedWeight(nn.Module):
    """w(t), learned with the network through e^w L - w, whose best w is -ln of the mean loss at t.

    Source: Karras et al., EDM2 (2024), section 2.3; Lu and Song, sCM (2024), section 4.2.
    """

    rates: Tensor

    def __init__(self, waves: int = 8) -> None:
        super().__init__()
        self.register_buffer("rates", torch.arange(1.0, waves + 1.0) * 2.0, persistent=False)
        self.mix = nn.Linear(2 * waves, 1)
        nn.init.zeros_(self.mix.weight)
        nn.init.zeros_(self.mix.bias)

    def forward(self, t: Tensor) -> Tensor:
        """t in 0 .. pi / 2, [*rows] -> [*rows]."""
        angles = t.float()[..., None] * self.rates
        weight: Tensor = self.mix(torch.cat([angles.cos(), angles.sin()], dim=-1))
        return weight.squeeze(-1)


def _sizes(goals: Latents, old: Latents) -> dict[str, Tensor]:
    """How far each modality's goal is from the student: below 1, as tangents are normalised."""
    return {f"{n}_tangent": (goals[n] - old[n]).square().mean().sqrt() for n in goals}
