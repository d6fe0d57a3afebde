"""Discrete consistency training and distillation, as one rule of exchangeable parts.

    loss = w(t, r) d( f(x_t, t), stop(f'(x_r, r)) )

x_t = a(t) x0 + b(t) z. x_r is the same x0 and z at r (training), or one step of a teacher from x_t
(distillation). f' is the student itself, its gradient stopped, or the average of its weights; at
the clean time f' is x_r itself. Which parts make CT, CD, iCT, ECT, LCM and causal distillation is
in `onbeat.samplers.distill.rules.recipes`. Source: Song et al., Consistency Models (2023).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from onbeat.samplers.distill.rules.distances import Distance
from onbeat.samplers.distill.rules.flow import Space, euler, heun, mix
from onbeat.samplers.distill.rules.pairs import Pairs
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

StepKind = Literal["data", "euler", "heun"]
WeightKind = Literal["one", "1/gap"]


@dataclass(frozen=True, kw_only=True)
class TeacherGuidance:
    """Classifier-free guidance of the teacher: x0 = u + s (p - u), s uniform from `low` to `high`
    for every row. told: the student is told s (LCM; its own papers write w = s - 1).

    modalities: those guided; none given means all.
    """

    low: float
    high: float
    told: bool
    modalities: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= self.high:
            raise ValueError(f"guidance is {self.low} to {self.high}; allowed: 0 <= low <= high")

    def draw(self, rows: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Scales float32 [*rows]."""
        return self.low + (self.high - self.low) * torch.rand(rows, generator=generator)


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """See the module. shares: weight of a modality's loss, 1 where none is given."""

    space: Space
    pairs: Pairs
    distance: Distance = Distance()
    weight: WeightKind = "one"
    step: StepKind = "data"
    target: Literal["student", "average"] = "student"
    guidance: TeacherGuidance | None = None
    shares: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.guidance is not None and self.step == "data":
            raise ValueError("step is 'data' with guidance; allowed: a step of a teacher")

    def __call__(self, models: Models, batch: Batch, moment: Moment) -> Loss:
        clean, g, path = batch.clean, moment.generator, self.space.path
        rows = batch.rows(self.space.row_axes)
        now, before = self.pairs(rows, moment)
        t, r = self.space.times(clean, now), self.space.times(clean, before)
        noise = noise_like(clean, g)
        scale = None if self.guidance is None else self.guidance.draw(rows, g)
        told = scale if self.guidance is not None and self.guidance.told else None
        seed = int(torch.randint(2**31, (), generator=g))
        judge = models.student if self.target == "student" else models.need("average")
        x_t = {name: mix(path, x, noise[name], t[name]) for name, x in clean.items()}
        with torch.no_grad(), same_dropout(seed):
            if self.step == "data":
                x_r = {name: mix(path, x, noise[name], r[name]) for name, x in clean.items()}
            else:
                x_r = self._taught(models.need("teacher"), x_t, (t, r), scale)
        with torch.no_grad(), same_dropout(seed):
            answer = judge(Query(x=x_r, t=r, scale=told))
            want = {n: at_clean(self.space, x_r[n], answer[n], r[n]) for n in x_r}
        with same_dropout(seed):
            got = models.student(Query(x=x_t, t=t, scale=told))
        return self._loss(batch, got, want, (t, r))

    def _taught(
        self, teacher: Function, x: Latents, times: tuple[Times, Times], scale: Tensor | None
    ) -> dict[str, Tensor]:
        """One step of the teacher from t to r."""
        t, r = times

        def clean(x: Latents, t: Times) -> Latents:
            return self._guided(teacher, x, t, scale)

        first = clean(x, t)
        if self.step == "heun":
            return heun(self.space.path, clean, x, t, r, first)
        return {n: euler(self.space.path, x[n], first[n], t[n], r[n]) for n in x}

    def _guided(self, teacher: Function, x: Latents, t: Times, scale: Tensor | None) -> Latents:
        prompted = teacher(Query(x=x, t=t))
        if scale is None or self.guidance is None or self.guidance.low == self.guidance.high == 1.0:
            return prompted
        plain = teacher(Query(x=x, t=t, prompted=False))
        chosen = self.guidance.modalities or tuple(x)
        return {
            n: plain[n] + spread(scale, p) * (p - plain[n]) if n in chosen else p
            for n, p in prompted.items()
        }

    def _loss(self, batch: Batch, got: Latents, want: Latents, times: tuple[Times, Times]) -> Loss:
        parts, metrics = {}, {}
        for name, answer in got.items():
            squares = batch.weighted(name, (answer.float() - want[name].float()).square())
            apart = self.distance(squares, self.space.row_axes)
            gap = (times[0][name] - times[1][name]).to(apart.device, apart.dtype)
            weight = torch.ones_like(gap) if self.weight == "one" else 1.0 / gap
            parts[name] = (weight * apart).mean()
            metrics[f"{name}_error"] = squares.detach().mean().sqrt()
        return Loss(value=total(parts, self.shares), metrics=metrics)


def at_clean(space: Space, x: Tensor, answer: Tensor, t: Tensor) -> Tensor:
    """`answer`, but x itself in rows whose time is clean."""
    return torch.where(spread(space.is_clean(t).double(), x) > 0.0, x, answer)


@contextmanager
def same_dropout(seed: int) -> Iterator[None]:
    """Runs a network with torch's global generators at `seed`, and puts them back: two evaluations
    with the same seed drop the same units."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
