"""MeanFlow: training of flow maps from their own identity, without a teacher.

The mean velocity u(x, t, r) of a flow map, x_r = x_t - (t - r) u, obeys u = v - (t - r) du/dt along
the flow. The network is trained on the right-hand side, with v of the data (or of a teacher) and
du/dt the derivative along (v, 1, 0) in (x, t, r); at r = t it is flow matching. On rectified flow;
here functions answer u, not x0. Source: Geng et al., MeanFlow (2025), algorithm 1.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from onbeat.samplers.distill.rules.consistency import same_dropout
from onbeat.samplers.distill.rules.flow import mix
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

RF = Path(kind="rf")


@dataclass(frozen=True, kw_only=True)
class MeanFlow:
    """t and r: the larger and smaller of two sigmoids of normals; equal in `same` of the rows. A
    row's loss, the sum of its squares L, is divided by (L + c)^power, without gradient. taught: v
    is (x - x0) / t with x0 from `models.teacher`."""

    row_axes: int = 1
    mean: float = -0.4
    std: float = 1.0
    same: float = 0.75
    c: float = 0.01
    power: float = 1.0
    taught: bool = False
    derivative: Derivative = "jvp"
    half_step: float = 1e-3

    def draw(self, rows: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """(t, r), float64 [*rows]."""
        normal = torch.randn((2, *rows), generator=generator, dtype=torch.float64)
        both = (self.mean + self.std * normal).sigmoid()
        t, r = both.amax(0), both.amin(0)
        equal = torch.rand(rows, generator=generator) < self.same
        return t, torch.where(equal, t, r)

    def __call__(self, models: Models, batch: Batch, moment: Moment) -> Loss:
        clean, g = batch.clean, moment.generator
        t, r = (dict.fromkeys(clean, v) for v in self.draw(batch.rows(self.row_axes), g))
        noise = noise_like(clean, g)
        x = {n: mix(RF, c, noise[n], t[n]) for n, c in clean.items()}
        seed = int(torch.randint(2**31, (), generator=g))
        v = {n: noise[n] - c for n, c in clean.items()}
        if self.taught:
            with torch.no_grad():
                x0 = models.need("teacher")(Query(x=x, t=t))
            v = {n: (x[n] - x0[n]) / spread(t[n], x[n]) for n in x}
        with same_dropout(seed):
            slope = self._slope(models.student, x, (t, r), v)
        with same_dropout(seed):
            u = models.student(Query(x=x, t=t, toward=r))
        parts = {}
        for name, got in u.items():
            want = (v[name] - spread(t[name] - r[name], got) * slope[name]).detach()
            squares = batch.weighted(name, (got - want).square()).flatten(self.row_axes).sum(-1)
            parts[name] = (squares / (squares.detach() + self.c) ** self.power).mean()
        return Loss(value=total(parts, {}), metrics={})

    def _slope(
        self, student: Function, x: Latents, times: tuple[Times, Times], v: Latents
    ) -> dict[str, Tensor]:
        """du/dt along the flow, r held."""
        t, r = times

        def u(at: Point) -> dict[str, Tensor]:
            return dict(student(Query(x=at["x"], t=at["t"], toward=r)))

        at = {"x": dict(x), "t": dict(t)}
        ones = {n: torch.ones_like(value) for n, value in t.items()}
        direction = {"x": dict(v), "t": ones}
        return along(u, at, direction, self.derivative, self.half_step)[1]
