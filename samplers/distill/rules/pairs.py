"""Where on a path a rule compares: pairs of times t > r, drawn for every row.

Each kind is a frozen dataclass called as `pairs(rows, moment)` -> (t, r), float64 [*rows], in times
of the common schedule (modalities may shift them). No latents here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from onbeat.samplers.distill.rules.curricula import ct_levels, ect_stage, ict_levels
from onbeat.samplers.distill.rules.rule import Moment
from onbeat.samplers.schedule import karras, lcm_times

Pairs: TypeAlias = Callable[[tuple[int, ...], Moment], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class KarrasPairs:
    """Neighbours on a Karras grid of sigmas (edm), `low` to `high`.

    levels: a number, or the last one of CT's or iCT's curriculum. chosen: "uniform" (CM), or
    "lognormal": the mass of a normal of `mean` and `std` between ln s_i and ln s_{i+1}.
    Sources: Song et al., CM (2023), section 5; Song and Dhariwal, iCT (2023), section 3.5.
    """

    levels: int = 40
    curriculum: Literal["fixed", "ct", "ict"] = "fixed"
    first_levels: int = 2
    chosen: Literal["uniform", "lognormal"] = "uniform"
    mean: float = -1.1
    std: float = 2.0
    low: float = 0.002
    high: float = 80.0

    def count(self, moment: Moment) -> int:
        """Levels at this moment."""
        if self.curriculum == "ct":
            return ct_levels(moment.step, moment.steps, self.first_levels, self.levels)
        if self.curriculum == "ict":
            return ict_levels(moment.step, moment.steps, self.first_levels, self.levels)
        return self.levels

    def grid(self, moment: Moment) -> Tensor:
        """Sigmas, rising, float64 [count]."""
        n = self.count(moment)
        sigmas = [karras(1.0 - i / (n - 1), self.low, self.high) for i in range(n)]
        return torch.tensor(sigmas, dtype=torch.float64)

    def chances(self, grid: Tensor) -> Tensor:
        """Of each interval, float64 [count - 1], summing to 1."""
        if self.chosen == "uniform":
            return torch.full((len(grid) - 1,), 1.0 / (len(grid) - 1), dtype=torch.float64)
        edges = torch.erf((grid.log() - self.mean) / (math.sqrt(2.0) * self.std))
        return (edges[1:] - edges[:-1]) / (edges[-1] - edges[0])

    def __call__(self, rows: tuple[int, ...], moment: Moment) -> tuple[Tensor, Tensor]:
        grid = self.grid(moment)
        number = math.prod(rows)
        at = torch.multinomial(
            self.chances(grid), number, replacement=True, generator=moment.generator
        ).view(rows)
        return grid[at + 1], grid[at]


@dataclass(frozen=True, kw_only=True)
class EctPairs:
    """r = t (1 - n(t) / q^(stage + 1)) with n(t) = 1 + k sigmoid(-b t), at least clean.

    t: exp of a normal of `mean` and `std` (edm), or "rf": the same levels as t / (1 + t), with
    `pure` of the rows at t = 1, where n is 1. A stage lasts `every` steps; there are `stages`.
    Source: Geng et al., Consistency Models Made Easy (2024), section 3 and appendix A.
    """

    every: int
    stages: int = 8
    q: float = 2.0
    k: float = 8.0
    b: float = 1.0
    mean: float = -1.1
    std: float = 2.0
    path: Literal["edm", "rf"] = "edm"
    pure: float = 0.0

    def __post_init__(self) -> None:
        if not self.q > 1.0:
            raise ValueError(f"q is {self.q}; allowed: above 1")
        if not 0.0 <= self.pure <= 1.0 or (self.pure and self.path != "rf"):
            raise ValueError(f"pure is {self.pure}; allowed: 0 to 1, and above 0 on 'rf' alone")

    def __call__(self, rows: tuple[int, ...], moment: Moment) -> tuple[Tensor, Tensor]:
        g = moment.generator
        normal = torch.randn(rows, generator=g, dtype=torch.float64)
        sigma = (self.mean + self.std * normal).exp()
        t = sigma
        if self.path == "rf":
            t = sigma / (1.0 + sigma)
            t = t.masked_fill(torch.rand(rows, generator=g) < self.pure, 1.0)
            sigma = t / (1.0 - t)
        return t, self.earlier(t, sigma, ect_stage(moment.step, self.every, self.stages - 1))

    def earlier(self, t: Tensor, sigma: Tensor, stage: int) -> Tensor:
        """r of t; n depends on the level as a sigma."""
        n = 1.0 + self.k * torch.sigmoid(-self.b * sigma)
        return (t * (1.0 - n / self.q ** (stage + 1))).clamp(min=0.0)


@dataclass(frozen=True, kw_only=True)
class GridPairs:
    """Neighbours on the uniform grid of rectified flow, `levels` intervals (`Space` shifts them).

    Source: Causal Forcing (2026): 48 intervals, shift 5.
    """

    levels: int = 48

    def __call__(self, rows: tuple[int, ...], moment: Moment) -> tuple[Tensor, Tensor]:
        at = torch.randint(1, self.levels + 1, rows, generator=moment.generator).double()
        return at / self.levels, (at - 1.0) / self.levels


@dataclass(frozen=True, kw_only=True)
class SkipPairs:
    """Training steps of `vp`: neighbours among `points` evenly spaced ones (by default each 20 of
    1,000 apart); the last one goes to clean.

    Source: Luo et al., LCM (2023), section 4.3.
    """

    points: int = 50
    training: int = 1000

    def __call__(self, rows: tuple[int, ...], moment: Moment) -> tuple[Tensor, Tensor]:
        times = lcm_times(self.points, self.points, self.training)
        grid = torch.tensor(times, dtype=torch.float64)
        at = torch.randint(0, self.points, rows, generator=moment.generator)
        return grid[at], grid[at + 1]
