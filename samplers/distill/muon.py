"""Muon: momentum whose matrix updates are made orthogonal (Keller Jordan, 2024).

What it is: one optimiser for a whole net; weights of two or more axes are treated as matrices
[out, rest], all others get Adam. What it is not: distributed. Orthogonal updates learn rare
directions (a colour, a small object) as fast as the common ones, which is what short runs need.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic Newton-Schulz iteration."""
ADAM_BETAS = (0.9, 0.99)


def orthogonal(matrix: Tensor, rounds: int = 5) -> Tensor:
    """About U V^T of a matrix [n, m] = U S V^T, by Newton-Schulz in bfloat16."""
    a, b, c = COEFFICIENTS
    x = matrix / (matrix.norm() + 1e-7)
    flip = x.shape[0] > x.shape[1]
    x = (x.T if flip else x).to(torch.bfloat16)
    for _ in range(rounds):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    result: Tensor = (x.T if flip else x).to(matrix.dtype)
    return result


class Muon(torch.optim.Optimizer):
    """`lr` is of the matrices; vectors use Adam at `lr * vector_rate`."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        vector_rate: float = 0.1,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "vector_rate": vector_rate})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and p.ndim >= 2:
                    self._matrix_step(p, group)
                elif p.grad is not None:
                    self._vector_step(p, group)

    def _matrix_step(self, p: Tensor, group: dict[str, Any]) -> None:
        assert p.grad is not None
        state = self.state[p]
        speed = state.setdefault("speed", torch.zeros_like(p))
        speed.lerp_(p.grad, 1.0 - group["momentum"])
        ahead = p.grad.lerp(speed, group["momentum"]).flatten(1)
        scale = max(1.0, ahead.shape[0] / ahead.shape[1]) ** 0.5
        p.add_(orthogonal(ahead).view_as(p), alpha=-group["lr"] * scale)

    def _vector_step(self, p: Tensor, group: dict[str, Any]) -> None:
        assert p.grad is not None
        state = self.state[p]
        state["step"] = state.get("step", 0) + 1
        first = state.setdefault("first", torch.zeros_like(p))
        second = state.setdefault("second", torch.zeros_like(p))
        b1, b2 = ADAM_BETAS
        first.lerp_(p.grad, 1 - b1)
        second.lerp_(p.grad.square(), 1 - b2)
        root = (second / (1 - b2 ** state["step"])).sqrt() + 1e-8
        rate = group["lr"] * group["vector_rate"] / (1 - b1 ** state["step"])
        p.addcdiv_(first, root, value=-rate)
