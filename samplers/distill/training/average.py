"""Averages of a network's weights: decays as functions of the step, and averages made afterwards.

A decay says how much of the average stays in one update: average = decay average + (1 - decay)
weights. No network is run here. Source of power averages and of their post-hoc synthesis: Karras
et al., EDM2 (2024), section 3 and appendix C.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Decay = Callable[[int], float]
"""Step, counted from 0 -> decay of the update after it."""


def constant(decay: float) -> Decay:
    """Raises ValueError unless 0 <= decay < 1 (0: the average is the weights themselves)."""
    if not 0.0 <= decay < 1.0:
        raise ValueError(f"decay is {decay}; allowed: 0 up to, but not, 1")
    return lambda step: decay


def warmed(decay: float) -> Decay:
    """`decay`, less in the first steps: at most (1 + step) / (10 + step)."""
    held = constant(decay)
    return lambda step: min(held(step), (1.0 + step) / (10.0 + step))


def power(width: float) -> Decay:
    """(1 - 1 / k)^(gamma + 1) at the k-th update: an average whose length grows with the run, to
    `width` of it as a standard deviation (0 < width < 0.28). The first update copies the weights.
    """
    gamma = gamma_of(width)
    return lambda step: (1.0 - 1.0 / (step + 1)) ** (gamma + 1.0)


def gamma_of(width: float) -> float:
    """The power whose average has this relative width: the positive root of
    width^2 (gamma + 2)^2 (gamma + 3) = gamma + 1."""
    if not 0.0 < width < 12.0**-0.5:
        raise ValueError(f"width is {width}; allowed: above 0, below {12.0**-0.5:.4f}")
    inverse = width**-2
    return float(np.roots([1.0, 7.0, 16.0 - inverse, 12.0 - inverse]).real.max())


@torch.no_grad()
def update(average: nn.Module, net: nn.Module, decay: float) -> None:
    """Moves the parameters of `average` towards `net`; buffers are copied."""
    torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), 1.0 - decay)
    for mine, other in zip(average.buffers(), net.buffers(), strict=True):
        mine.copy_(other)


class Snapshot(NamedTuple):
    """A power average of `width` after `updates` updates."""

    width: float
    updates: int


def synthesis(kept: Sequence[Snapshot], wanted: Snapshot) -> list[float]:
    """Weights by which snapshots add up to an average that was never kept: the nearest in the least
    squares of the profiles over the run. `wanted.updates` may not lie after the last snapshot."""
    if wanted.updates > max(s.updates for s in kept):
        raise ValueError(f"updates is {wanted.updates}; allowed: up to the last snapshot's")
    rows = np.array([(s.updates, gamma_of(s.width)) for s in kept])
    target = np.array([(wanted.updates, gamma_of(wanted.width))])
    weights = np.linalg.solve(_products(rows, rows), _products(rows, target))
    return [float(w) for w in weights[:, 0]]


def _products(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inner products over time of the profiles (gamma + 1) / t (tau / t)^gamma, 0 after t."""
    (t, p), (s, q) = (v[:, None] for v in a.T), (v[None] for v in b.T)
    early = np.minimum(t, s)
    shape = (early / t) ** p * (early / s) ** q * early / (t * s)
    product: NDArray[np.float64] = (p + 1.0) * (q + 1.0) / (p + q + 1.0) * shape
    return product


@torch.no_grad()
def blend(states: Sequence[dict[str, Tensor]], weights: Sequence[float]) -> dict[str, Tensor]:
    """The weighted sum of state dicts; tensors that are no floating numbers are the last one's."""
    out = dict(states[-1])
    for name, last in states[-1].items():
        if last.is_floating_point():
            parts = [w * s[name].double() for s, w in zip(states, weights, strict=True)]
            out[name] = torch.stack(parts).sum(0).to(last.dtype)
    return out
