"""The ragged step of a consistency sampler (see `consistency_step`)."""

from typing import Literal

import torch
from torch import Tensor

from onbeat.kernels._dispatch import use_triton
from onbeat.kernels.consistency_step import reference

__all__ = ["KINDS", "Kind", "consistency_step"]

Kind = Literal["x0", "v"]
KINDS: tuple[Kind, ...] = ("x0", "v")


def consistency_step(
    x: Tensor, prediction: Tensor, t: Tensor, s: Tensor, keys: Tensor, kind: Kind = "x0"
) -> Tensor:
    """Each row from its noise level t to its s on the rectified-flow path: (1 - s) x0 + s z.

    x, prediction: float32 [r, N]; prediction is x0 itself ("x0"), or v with x0 = x - t v ("v").
    t, s: float32 or float64 [r]; s = 0 returns x0 exactly and draws nothing.
    keys: int64 [r, 6], the noise keys of `philox_normal`; z is drawn in float32.
    Returns float32 [r, N]; rows do not depend on each other. Raises ValueError naming the field.
    Source: Song et al., Consistency Models (2023), algorithm 1, on the path a = 1 - t, b = t.
    """
    _check(x, prediction, t, s, keys, kind)
    if use_triton(x):
        from onbeat.kernels.consistency_step.triton import consistency_step as fast

        return fast(x, prediction, t, s, keys, kind)
    return reference.consistency_step(x, prediction, t, s, keys, kind)


def _check(x: Tensor, prediction: Tensor, t: Tensor, s: Tensor, keys: Tensor, kind: str) -> None:
    rows = x.shape[0]
    shapes = {
        "x": (x, (rows, x.shape[-1])),
        "prediction": (prediction, tuple(x.shape)),
        "t": (t, (rows,)),
        "s": (s, (rows,)),
        "keys": (keys, (rows, 6)),
    }
    for name, (tensor, allowed) in shapes.items():
        if tuple(tensor.shape) != allowed:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; allowed: {allowed}")
    for name, tensor in (("x", x), ("prediction", prediction)):
        if tensor.dtype != torch.float32:
            raise ValueError(f"{name} is {tensor.dtype}; allowed: torch.float32")
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; allowed: {', '.join(KINDS)}")
