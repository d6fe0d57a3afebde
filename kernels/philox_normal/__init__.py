"""Normal noise as a pure function of where it is used, never of when (see `philox_normal`)."""

import torch
from torch import Tensor

from onbeat.kernels._dispatch import use_triton
from onbeat.kernels.philox_normal import reference

__all__ = ["KEY_COLUMNS", "philox_normal"]

KEY_COLUMNS = ("seed", "stream", "chunk", "modality", "step", "reserved")


def philox_normal(keys: Tensor, n: int) -> Tensor:
    """Standard normal float32 [r, n]; row i depends on keys[i] alone, element by element.

    keys: int64 [r, 6], columns `KEY_COLUMNS`; reserved is 0. The layout is injective for a seed of
    64 bits, stream and chunk of 32, modality of 8 and step of 24 bits, and n up to 2^34:

        Philox key      seed low, seed high
        Philox counter  element // 4, chunk, stream, modality << 24 | step

    Elements 4b..4b+3 are the two Box-Muller pairs of block b, made in float64, rounded to float32.
    Raises ValueError if the keys have another shape or type.
    """
    if keys.dtype != torch.int64 or keys.dim() != 2 or keys.shape[1] != len(KEY_COLUMNS):
        raise ValueError(f"keys is {keys.dtype} {tuple(keys.shape)}; allowed: torch.int64 (r, 6)")
    if use_triton(keys):
        from onbeat.kernels.philox_normal.triton import philox_normal as fast

        return fast(keys, n)
    return reference.philox_normal(keys, n)
