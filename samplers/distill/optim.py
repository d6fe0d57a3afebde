"""The optimiser of the denoiser's stages: Muon for the blocks' matrices, AdamW for the rest.

What it is: both optimisers, a rate that warms up and falls, and the moving average of the weights.
What it is not: a loop.
"""

import math
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import torch
from torch import Tensor, nn

from onbeat.samplers.distill.muon import Muon

MATRIX_RATE = 0.02
OTHER_RATE = 2e-3
WARM_UP = 30
LAST_SHARE = 0.1
"""Of the peak rate, at the end of a stage."""
EMA = 0.997
CLIP = 1.0


def is_matrix(name: str, p: Tensor) -> bool:
    """Whether `p` is a matrix between hidden vectors; tables, inputs and outputs are not."""
    inside = "blocks." in name or "mixer." in name
    return p.ndim == 2 and inside


class Optimizer:
    """Steps the parameters of a net from gradients given in their order."""

    def __init__(self, net: nn.Module) -> None:
        named = list(net.named_parameters())
        self.params = [p for _, p in named]
        matrices = [p for name, p in named if is_matrix(name, p)]
        others = [p for name, p in named if not is_matrix(name, p)]
        self._muons = [Muon(matrices[i::2], lr=MATRIX_RATE) for i in range(2)]
        self._adam = torch.optim.AdamW(
            others, lr=OTHER_RATE, betas=(0.9, 0.98), weight_decay=0.0, foreach=True
        )

    def step(self, grads: list[Tensor], rate: float, pool: Executor) -> float:
        """`rate` multiplies all learning rates; returns the gradient's norm."""
        for p, grad in zip(self.params, grads, strict=True):
            p.grad = grad
        norm = float(torch.nn.utils.clip_grad_norm_(self.params, CLIP))
        if not math.isfinite(norm):
            raise FloatingPointError(f"gradient norm is {norm}")
        for group in self._adam.param_groups:
            group["lr"] = OTHER_RATE * rate
        for muon in self._muons:
            for group in muon.param_groups:
                group["lr"] = MATRIX_RATE * rate
        work: list[Callable[[], Any]] = [muon.step for muon in self._muons]
        jobs = [pool.submit(job) for job in work]
        self._adam.step()
        for job in jobs:
            job.result()
        return norm

    def state_dict(self) -> dict[str, Any]:
        return {"muon": [m.state_dict() for m in self._muons], "adam": self._adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for muon, mine in zip(self._muons, state["muon"], strict=True):
            muon.load_state_dict(mine)
        self._adam.load_state_dict(state["adam"])


def rate_at(step: int, progress: float, peak: float) -> float:
    """Warm-up over steps, flat, then a fall over the last 60 % of a stage (progress 0..1)."""
    fall = min(1.0, max(0.0, (progress - 0.4) / 0.6))
    share = LAST_SHARE + (1.0 - LAST_SHARE) * 0.5 * (1.0 + math.cos(math.pi * fall))
    return peak * share * min(1.0, (step + 1) / WARM_UP)


@torch.no_grad()
def update_ema(ema: nn.Module, net: nn.Module, step: int) -> None:
    """Moves `ema` towards `net`; faster in the first steps."""
    decay = min(EMA, (1.0 + step) / (10.0 + step))
    torch._foreach_lerp_(list(ema.parameters()), list(net.parameters()), 1.0 - decay)
