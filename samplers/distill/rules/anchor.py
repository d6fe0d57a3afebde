"""Flow matching, alone or beside another rule, and ways to put rules together.

Plain flow matching keeps a few-step model on the data while a consistency rule shortens its path.
A network that is asked both things must be told which: the query of flow matching can say that the
time it goes towards is the time where it is. Sources: Lipman et al., Flow Matching (2023); FACM
(arXiv 2507.03738).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from onbeat.samplers.distill.rules.flow import Space, mix
from onbeat.samplers.distill.rules.rule import (
    Batch,
    Loss,
    Models,
    Moment,
    Query,
    Rule,
    noise_like,
    total,
)


@dataclass(frozen=True, kw_only=True)
class FlowMatching:
    """Squares of x0 errors on rectified flow at times sigmoid(normal(mean, std)), `pure` of them 1.

    weight: "velocity" is 1 / max(t, least)^2, which makes them velocity errors; "one" leaves them.
    told: the query goes towards its own time (see the module).
    """

    space: Space
    mean: float = 0.0
    std: float = 1.0
    pure: float = 0.0
    weight: Literal["velocity", "one"] = "velocity"
    least: float = 0.05
    told: bool = False
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.space.path.kind != "rf":
            raise ValueError(f"path is {self.space.path.kind!r}; allowed: 'rf'")

    def draw(self, rows: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Times float64 [*rows] of the common schedule."""
        normal = torch.randn(rows, generator=generator, dtype=torch.float64)
        t = (self.mean + self.std * normal).sigmoid()
        return t.masked_fill(torch.rand(rows, generator=generator) < self.pure, 1.0)

    def __call__(self, models: Models, batch: Batch, moment: Moment) -> Loss:
        clean, g = batch.clean, moment.generator
        t = self.space.times(clean, self.draw(batch.rows(self.space.row_axes), g))
        noise = noise_like(clean, g)
        x = {n: mix(self.space.path, c, noise[n], t[n]) for n, c in clean.items()}
        got = models.student(Query(x=x, t=t, toward=t if self.told else None))
        parts, metrics = {}, {}
        for name, answer in got.items():
            squares = batch.weighted(name, (answer.float() - clean[name].float()).square())
            apart = squares.flatten(self.space.row_axes).mean(-1)
            scale = t[name].clamp(min=self.least).square().reciprocal().to(apart)
            parts[name] = (apart * scale if self.weight == "velocity" else apart).mean()
            metrics[f"{name}_flow_error"] = squares.detach().mean().sqrt()
        return Loss(value=total(parts, self.shares), metrics=metrics)


@dataclass(frozen=True, kw_only=True)
class Sum:
    """Rules on the same batch, each times its weight."""

    parts: tuple[tuple[float, Rule], ...]

    def __call__(self, models: Models, batch: Batch, moment: Moment) -> Loss:
        losses = [(weight, rule(models, batch, moment)) for weight, rule in self.parts]
        metrics = {name: value for _, loss in losses for name, value in loss.metrics.items()}
        value = torch.stack([weight * loss.value for weight, loss in losses]).sum()
        return Loss(value=value, metrics=metrics)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of the rules for each batch, with the given chances (they sum to 1): as `Sum` on average,
    at the cost of one."""

    parts: tuple[tuple[float, Rule], ...]

    def __post_init__(self) -> None:
        whole = sum(chance for chance, _ in self.parts)
        if abs(whole - 1.0) > 1e-9 or any(chance < 0.0 for chance, _ in self.parts):
            raise ValueError(f"chances sum to {whole}; allowed: 1, none below 0")

    def __call__(self, models: Models, batch: Batch, moment: Moment) -> Loss:
        chances = torch.tensor([chance for chance, _ in self.parts])
        at = int(torch.multinomial(chances, 1, generator=moment.generator))
        return self.parts[at][1](models, batch, moment)
