"""One ragged step in numpy: the CPU path and the oracle of the Triton version.

Products and sums are separate operations (one rounding each), so that vector and scalar loops give
the same bits and a row does not depend on its batch mates. numpy and not torch, because small
batches are bound by the cost of a call.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onbeat.kernels.philox_normal.reference import philox_normal

Floats = NDArray[np.float32]
_NEUTRAL = np.array((0.0, 1.0, np.inf, 0.0, 1.0, 0.0), dtype=np.float32)
"""Coefficients that change nothing, column by column."""


def consistency_step(
    x: Tensor, prediction: Tensor, coefficients: Tensor, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """x, prediction float32 [r, N]; coefficients [r, 6]; keys int64 [r, 6] -> (next, clean)."""
    k = coefficients.numpy().astype(np.float32)
    idle_x, idle_p, idle_clip, idle_next, idle_clean, idle_noise = (k == _NEUTRAL).all(0).tolist()
    clean_x, clean_p, clip, next_x, next_clean, noise = k.T[:, :, None]
    x_rn, clean = x.detach().numpy(), prediction.detach().numpy()
    if not idle_p:
        clean = _scaled(clean, clean_p)
    if not idle_x:
        clean = _plus(clean, x_rn, clean_x)
    if not idle_clip:
        clean = np.maximum(np.minimum(clean, clip), -clip)
    after = clean if idle_clean else _scaled(clean, next_clean)
    if not idle_next:
        after = _plus(after, x_rn, next_x)
    if not idle_noise:
        after = _with_noise(after, noise, keys)
    return torch.from_numpy(after), torch.from_numpy(clean)


def _scaled(values: Floats, factor: Floats) -> Floats:
    """Products; 0 where the factor is, whatever the value."""
    used = factor != 0
    if used.all():
        return values * factor
    product = np.zeros(values.shape, np.float32)
    np.multiply(values, factor, out=product, where=used)
    return product


def _plus(total: Floats, x: Floats, factor: Floats) -> Floats:
    """total + x factor in rows whose factor is not 0, in new memory; others keep their bits."""
    used = factor != 0
    if used.all():
        product = x * factor
        product += total
        return product
    product, total = np.empty(x.shape, np.float32), total.copy()
    np.multiply(x, factor, out=product, where=used)
    np.add(total, product, out=total, where=used)
    return total


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
