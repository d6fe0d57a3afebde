"""One ragged step in numpy: the CPU path and the oracle of the Triton version.

Products and sums are separate operations (one rounding each), so that vector and scalar loops give
the same bits and a row does not depend on its batch mates. numpy and not torch, because small
batches are bound by the cost of a call.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onbeat.kernels.philox_normal.reference import philox_normal

Floats = NDArray[np.float32]
NUMBERS_AT_ONCE = 1 << 16
"""More, and the temporary arrays leave the processor's cache and are mapped anew each time."""
_NEUTRAL = np.array((0.0, 1.0, np.inf, 0.0, 1.0, 0.0), dtype=np.float32)
"""Coefficients that change nothing, column by column."""


def consistency_step(
    x: Tensor, prediction: Tensor, coefficients: Tensor, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """x, prediction float32 [r, N]; coefficients [r, 6]; keys int64 [r, 6] -> (next, clean)."""
    k = coefficients.numpy().astype(np.float32)
    idle = (k == _NEUTRAL).all(0).tolist()
    x_rn, clean = x.detach().numpy(), prediction.detach().numpy()
    if not all(idle[:3]):
        clean = _in_pieces(_clean, clean, x_rn, k[:, :3])
    after = clean if all(idle[3:5]) else _in_pieces(_next, clean, x_rn, k[:, 3:5])
    if not idle[5]:
        after = _with_noise(after, k[:, 5:], keys)
    return torch.from_numpy(after), torch.from_numpy(clean)


def _in_pieces(
    fill: Callable[[Floats, Floats, Floats, Floats], None], values: Floats, x: Floats, k: Floats
) -> Floats:
    """New memory, filled a few rows at a time."""
    out = np.empty(values.shape, np.float32)
    some = max(1, NUMBERS_AT_ONCE // max(1, values.shape[1]))
    for first in range(0, len(out), some):
        part = slice(first, first + some)
        fill(out[part], values[part], x[part], k[part])
    return out


def _clean(out: Floats, prediction: Floats, x: Floats, k: Floats) -> None:
    clean_x, clean_p, clip = k.T[:, :, None]
    _scale(out, prediction, clean_p)
    _add(out, x, clean_x)
    if not np.isinf(clip).all():
        np.minimum(out, clip, out=out)
        np.maximum(out, -clip, out=out)


def _next(out: Floats, clean: Floats, x: Floats, k: Floats) -> None:
    next_x, next_clean = k.T[:, :, None]
    _scale(out, clean, next_clean)
    _add(out, x, next_x)


def _scale(out: Floats, values: Floats, factor: Floats) -> None:
    """Products; 0 where the factor is, whatever the value."""
    used = factor != 0
    if not used.all():
        out.fill(0.0)
    np.multiply(values, factor, out=out, where=True if used.all() else used)


def _add(out: Floats, x: Floats, factor: Floats) -> None:
    """Adds x factor to rows whose factor is not 0; others keep their bits."""
    used = factor != 0
    if used.all():
        out += x * factor
    elif used.any():
        product = np.empty(out.shape, np.float32)
        np.multiply(x, factor, out=product, where=used)
        np.add(out, product, out=out, where=used)


def _with_noise(after: Floats, noise: Floats, keys: Tensor) -> Floats:
    """Rows whose noise is not 0 get some, in new memory."""
    rows = np.flatnonzero(noise)
    z = philox_normal(keys if rows.size == len(noise) else keys[rows], after.shape[1]).numpy()
    if rows.size == len(noise):
        z *= noise
        z += after
        return z
    z *= noise[rows]
    z += after[rows]
    after = after.copy()
    after[rows] = z
    return after
