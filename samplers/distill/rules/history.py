"""Histories of causal training: the true one, or what the model itself would have made.

A causal model denoises a chunk after the chunks before it. In training they are the data's own
(teacher forcing: functions show them unless a query says otherwise); a served model sees its own
output instead. `OwnHistory` runs any rule with the student's output as history, made without
gradients. Sources: Huang et al., Self-Forcing (2025); Resampling Forcing (arXiv 2512.15702).
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from onbeat.samplers.distill.rules.flow import Space, mix
from onbeat.samplers.distill.rules.rule import (
    Batch,
    Function,
    Latents,
    Loss,
    Models,
    Moment,
    Query,
    Rule,
    noise_like,
)


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Whole few-step samples of every chunk at `times` of the schedule (the first is pure noise),
    in parallel: in the first round after the true history, in each further round after the samples
    of the round before, so that errors add up."""

    times: tuple[float, ...]
    rounds: int = 1

    def __call__(
        self, student: Function, clean: Latents, space: Space, generator: torch.Generator
    ) -> Latents:
        made: Latents | None = None
        for _ in range(self.rounds):
            x0: Latents = {name: torch.zeros_like(x) for name, x in clean.items()}
            for t in self.times:
                noise = noise_like(clean, generator)
                at = space.times(clean, _everywhere(clean, space, t))
                x = {n: mix(space.path, x0[n], noise[n], at[n]) for n in x0}
                x0 = student(Query(x=x, t=at, history=made))
            made = x0
        assert made is not None, self.rounds
        return made


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """Every chunk noised to a level, sigmoid of a normal, one for a clip, and denoised by the
    student in one evaluation: a history with the student's own errors that still fits the data."""

    mean: float = 0.0
    std: float = 1.0

    def __call__(
        self, student: Function, clean: Latents, space: Space, generator: torch.Generator
    ) -> Latents:
        first = next(iter(clean.values()))
        normal = torch.randn(first.shape[0], generator=generator, dtype=torch.float64)
        level = (self.mean + self.std * normal).sigmoid()
        rows = first.shape[: space.row_axes]
        wide = level.view(-1, *[1] * (len(rows) - 1)).expand(rows)
        t = space.times(clean, wide)
        noise = noise_like(clean, generator)
        x = {n: mix(space.path, c, noise[n], t[n]) for n, c in clean.items()}
        return student(Query(x=x, t=t))


@dataclass(frozen=True, kw_only=True)
class OwnHistory:
    """`rule`, but in `share` of the batches the student sees its own history, made by `made`. The
    teacher and the average keep the true one: their targets lead back to the data."""

    rule: Rule
    space: Space
    made: Sampled | Resampled
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.space.path.kind != "rf" or self.space.row_axes < 2:
            raise ValueError("space is not rf over (clip, chunk); allowed: only that")
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(f"share is {self.share}; allowed: 0 to 1")

    def __call__(self, models: Models, batch: Batch, moment: Moment) -> Loss:
        if float(torch.rand((), generator=moment.generator)) >= self.share:
            return self.rule(models, batch, moment)
        with torch.no_grad():
            history = self.made(models.student, batch.clean, self.space, moment.generator)

        def student(query: Query) -> Latents:
            return models.student(replace(query, history=history))

        return self.rule(replace(models, student=student), batch, moment)


def _everywhere(clean: Latents, space: Space, t: float) -> Tensor:
    first = next(iter(clean.values()))
    return torch.full(first.shape[: space.row_axes], t, dtype=torch.float64, device=first.device)
