"""What a training rule is given and what it gives: plain data, and functions of queries.

A rule is a frozen dataclass that is called as `rule(models, batch, moment)`. All numbers that it
draws come from `moment.generator`, so that a step of training is a pure function of weights, batch
and seed. What it is not: a network, or a loop.

Row axes come first: a time tensor [*rows] belongs to latents [*rows, ...]. The rest of the axes is
the vector of that row. One picture a row: [r] and [r, n, d]; clips of chunks: [b, n], [b, n, t, d].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

Latents: TypeAlias = Mapping[str, Tensor]
"""Per modality, float32 [*rows, ...]."""
Times: TypeAlias = Mapping[str, Tensor]
"""Per modality, float64 [*rows]: times of the model's path."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Query:
    """One evaluation: the latents `x` at times `t`, and what else the network may be told."""

    x: Latents
    t: Times
    toward: Times | None = None
    """The second time of a flow map."""
    scale: Tensor | None = None
    """Guidance scale [*rows] of a network that has it embedded."""
    prompted: bool = True
    """False: without the prompt, for classifier-free guidance."""
    history: Latents | None = None
    """What chunks before this row's are remembered as, if not the batch's own clean ones."""


Function: TypeAlias = Callable[[Query], Latents]
"""A network with its conditions bound: x0 of every row (rules say so if they want another)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Models:
    """The functions of one batch. student: learns. average: of the student's weights, for targets.
    teacher: a trained diffusion or flow model, which gives posterior means, not consistency."""

    student: Function
    average: Function | None = None
    teacher: Function | None = None
    weighting: Callable[[Tensor], Tensor] | None = None
    """A learned log weight of times [*rows] (`continuous`)."""

    def need(self, name: str) -> Function:
        """The function called `name`. Raises ValueError if it was not given."""
        found: Function | None = getattr(self, name)
        if found is None:
            raise ValueError(f"models.{name} is None; allowed: a function, which this rule asks")
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Clean latents, and weights of their elements (broadcastable to them; mean 1). worse: of each
    row a rejected alternative (`preference`)."""

    clean: Latents
    weights: Latents | None = None
    worse: Latents | None = None

    def rows(self, axes: int) -> tuple[int, ...]:
        """Sizes of the row axes."""
        return tuple(next(iter(self.clean.values())).shape[:axes])

    def weighted(self, name: str, squares: Tensor) -> Tensor:
        """Squared errors of a modality times its weights."""
        return squares if self.weights is None else squares * self.weights[name]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment:
    """Where a run is: `step` of `steps` (for curricula), and this step's own generator."""

    step: int
    steps: int
    generator: torch.Generator

    @property
    def progress(self) -> float:
        return self.step / self.steps


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loss:
    """A scalar to minimise, and detached scalars for the log."""

    value: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)


Rule: TypeAlias = Callable[[Models, Batch, Moment], Loss]


def noise_like(clean: Latents, generator: torch.Generator) -> dict[str, Tensor]:
    """Standard normal noise in the shapes of `clean`, drawn on the CPU in float32."""
    return {
        name: torch.randn(x.shape, generator=generator).to(x.device, x.dtype)
        for name, x in clean.items()
    }


def spread(values: Tensor, like: Tensor) -> Tensor:
    """Numbers [*rows] in the dtype of latents [*rows, ...], ready to multiply them."""
    return values.to(like.device, like.dtype)[(..., *[None] * (like.dim() - values.dim()))]


def total(parts: Mapping[str, Tensor], shares: Mapping[str, float]) -> Tensor:
    """Sum of each modality's loss times its share (1 where none is given)."""
    return torch.stack([shares.get(name, 1.0) * part for name, part in parts.items()]).sum()
