"""Derivatives of networks along a direction: exactly by forward mode, or by a central difference.

Forward mode (`jvp`) asks that every operation of the network has a forward derivative; fused
attention and batch norm often have none. Differences work with any network, cost one evaluation
more and an error of order `half_step` squared. No gradient flows through either.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Derivative = Literal["jvp", "difference"]
Point = dict[str, dict[str, Tensor]]
"""Named arguments of a network, each per modality: latents and times alike."""


@torch.no_grad()
def along(
    network: Callable[[Point], dict[str, Tensor]],
    at: Point,
    direction: Point,
    kind: Derivative,
    half_step: float,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(network(at), its derivative along `direction`), per modality."""
    if kind == "jvp":
        both: tuple[dict[str, Tensor], dict[str, Tensor]]
        both = torch.func.jvp(network, (at,), (direction,))  # type: ignore[assignment]
        return both
    ahead = network(moved(at, direction, half_step))
    behind = network(moved(at, direction, -half_step))
    slope = {name: (ahead[name] - behind[name]) / (2.0 * half_step) for name in ahead}
    return network(at), slope


def moved(at: Point, direction: Point, by: float) -> Point:
    return {
        group: {name: x + by * direction[group][name] for name, x in values.items()}
        for group, values in at.items()
    }
