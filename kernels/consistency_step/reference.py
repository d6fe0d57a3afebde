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
Rows = NDArray[np.intp] | slice


def consistency_step(
    x: Tensor, prediction: Tensor, coefficients: Tensor, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """x, prediction float32 [r, N]; coefficients [r, 6]; keys int64 [r, 6] -> (next, clean)."""
    k = coefficients.numpy().astype(np.float32)[:, :, None]
    x_rn = x.detach().numpy()
    clean = _scaled(prediction.detach().numpy(), k[:, 1])
    clean = _added(clean, x_rn, k[:, 0])
    clean = _clamped(clean, k[:, 2])
    after = _scaled(clean, k[:, 4])
    after = _added(after, x_rn, k[:, 3])
    noisy = _rows(k[:, 5] != 0)
    if noisy is not None:
        z = philox_normal(keys[noisy], x.shape[1]).numpy()
        z *= k[noisy, 5]
        after = _own(after, clean)
        after[noisy] += z
    return torch.from_numpy(after), torch.from_numpy(clean)


def _rows(wanted: NDArray[np.bool_]) -> Rows | None:
    """The rows of a mask [r, 1]: everything as a slice (a view, no copy), nothing as None."""
    if wanted.all():
        return slice(None) if len(wanted) else None
    rows = np.flatnonzero(wanted)
    return rows if rows.size else None


def _scaled(values: Floats, factor: Floats) -> Floats:
    return values if (factor == 1).all() else values * factor


def _added(total: Floats, x: Floats, factor: Floats) -> Floats:
    rows = _rows(factor != 0)
    if rows is None:
        return total
    total = total.copy()
    total[rows] += x[rows] * factor[rows]
    return total


def _clamped(values: Floats, limit: Floats) -> Floats:
    rows = _rows(np.isfinite(limit))
    if rows is None:
        return values
    values = values.copy()
    values[rows] = np.clip(values[rows], -limit[rows], limit[rows])
    return values


def _own(values: Floats, other: Floats) -> Floats:
    """`values` in memory of its own."""
    return values.copy() if np.may_share_memory(values, other) else values
