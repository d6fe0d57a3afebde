"""The ragged step of a few-step sampler: six coefficients per row (see `consistency_step`)."""

import torch
from torch import Tensor

from onbeat.kernels._dispatch import use_triton
from onbeat.kernels.consistency_step import reference

__all__ = ["COLUMNS", "consistency_step"]

COLUMNS = ("clean_x", "clean_prediction", "clip", "next_x", "next_clean", "noise")
"""Order of a row's coefficients."""


def consistency_step(
    x: Tensor, prediction: Tensor, coefficients: Tensor, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """Each row one step on, by its own coefficients. Returns (next, clean), float32 [r, N]:

        clean = clean_x x + clean_prediction prediction, clamped to [-clip, clip]
        next  = next_clean clean + next_x x + noise z,   z standard normal under the row's key

    x, prediction: float32 [r, N]. coefficients: float64 [r, 6], columns `COLUMNS`, rounded once to
    float32; clip may be infinite. keys: int64 [r, 6], the noise keys of `philox_normal`.
    A term whose coefficient is 0 is left out (no noise is drawn, and an infinite x does no harm),
    so `next` is `clean` to the bit where a schedule ends. Rows do not depend on each other. The
    results may share memory with `prediction`. Raises ValueError naming the field.
    Every sampler of onbeat.samplers is of this form; CM's is algorithm 1 of Song et al. (2023).
    """
    _check(x, prediction, coefficients, keys)
    if use_triton(x):
        from onbeat.kernels.consistency_step.triton import consistency_step as fast

        return fast(x, prediction, coefficients, keys)
    return reference.consistency_step(x, prediction, coefficients, keys)


def _check(x: Tensor, prediction: Tensor, coefficients: Tensor, keys: Tensor) -> None:
    rows, columns = x.shape[0], len(COLUMNS)
    for name, tensor, shape, dtype in (
        ("prediction", prediction, x.shape, torch.float32),
        ("x", x, (rows, x.shape[-1]), torch.float32),
        ("coefficients", coefficients, (rows, columns), torch.float64),
        ("keys", keys, (rows, 6), torch.int64),
    ):
        if tensor.shape != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; allowed: {tuple(shape)}")
        if tensor.dtype != dtype:
            raise ValueError(f"{name} is {tensor.dtype}; allowed: {dtype}")
