"""Learning from pairs, one better than the other, without a reward: DPO on denoising errors.

    loss = -ln sigmoid( -beta (e_better - e_worse) ),  e = |x0 - f|^2 - |x0 - f_ref|^2

with both of a pair at the same time and noise; |.|^2 is the mean over a row's numbers, weighted by
1 / max(t, least)^2 on rectified flow (velocity errors). At f = f_ref it is ln 2, with the gradient
of beta / 2 (e_better - e_worse). Source: Wallace et al., Diffusion-DPO (2023), eq. 14.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from onbeat.samplers.distill.rules.anchor import FlowMatching
from onbeat.samplers.distill.rules.flow import mix
from onbeat.samplers.distill.rules.rule import (
    Batch,
    Latents,
    Loss,
    Models,
    Moment,
    Query,
    Times,
    noise_like,
)


@dataclass(frozen=True, kw_only=True)
class Preference:
    """`batch.clean` holds the better ones and `batch.worse` the others, row by row; the teacher is
    the reference: the student before this training. times: where errors are taken."""

    times: FlowMatching
    beta: float
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.beta > 0.0:
            raise ValueError(f"beta is {self.beta}; allowed: above 0")

    def __call__(self, models: Models, batch: Batch, moment: Moment) -> Loss:
        if batch.worse is None:
            raise ValueError("batch.worse is None; allowed: latents to compare with")
        space, g = self.times.space, moment.generator
        t = space.times(batch.clean, self.times.draw(batch.rows(space.row_axes), g))
        noise = noise_like(batch.clean, g)
        better = self._gain(models, batch.clean, noise, t)
        worse = self._gain(models, batch.worse, noise, t)
        margin = -self.beta * (better - worse)
        right = (margin.detach() > 0.0).double().mean()
        return Loss(value=-F.logsigmoid(margin).mean(), metrics={"preferred": right})

    def _gain(self, models: Models, clean: Latents, noise: Latents, t: Times) -> Tensor:
        """e of every row [*rows], summed over modalities."""
        axes, path = self.times.space.row_axes, self.times.space.path
        query = Query(x={n: mix(path, c, noise[n], t[n]) for n, c in clean.items()}, t=t)
        got = models.student(query)
        with torch.no_grad():
            before = models.need("teacher")(query)
        parts = []
        for name, x0 in clean.items():
            errors = (got[name] - x0).square() - (before[name] - x0).square()
            scale = t[name].clamp(min=self.times.least).square().reciprocal()
            share = self.shares.get(name, 1.0)
            parts.append(share * scale.to(errors) * errors.flatten(axes).mean(-1))
        return torch.stack(parts).sum(0)
