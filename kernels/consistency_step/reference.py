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
Mask = NDArray[np.bool_]
NUMBERS_AT_ONCE = 1 << 16
"""More, and the temporary arrays leave the processor's cache and are mapped anew each time."""
_NEUTRAL = np.array((0.0, 1.0, np.inf, 0.0, 1.0, 0.0), dtype=np.float32)
"""Coefficients that change nothing, column by column."""


def consistency_step(
    x: Tensor, prediction: Tensor, coefficients: Tensor, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """x, prediction float32 [r, N]; coefficients [r, 6]; keys int64 [r, 6] -> (next, clean)."""
    k = coefficients.numpy().astype(np.float32)
    used, idle = k != 0.0, (k == _NEUTRAL).all(0).tolist()
    everywhere = used.all(0).tolist()
    x_rn, clean = x.detach().numpy(), prediction.detach().numpy()

    def blend(values: Floats, scale: int, weight: int) -> Floats:
        """Products with column `scale`, and x with column `weight` added, in new memory."""
        out = np.empty(values.shape, np.float32)
        for part in _pieces(*values.shape):
            _multiply(
                out[part],
                values[part],
                k[part, scale, None],
                None if everywhere[scale] else used[part, scale, None],
            )
            if not idle[weight]:
                _add(
                    out[part],
                    x_rn[part],
                    k[part, weight, None],
                    None if everywhere[weight] else used[part, weight, None],
                )
        return out

    if not (idle[0] and idle[1] and idle[2]):
        clean = blend(clean, 1, 0)
    if not idle[2]:
        np.minimum(clean, k[:, 2, None], out=clean)
        np.maximum(clean, -k[:, 2, None], out=clean)
    after = clean if idle[3] and idle[4] else blend(clean, 4, 3)
    if not idle[5]:
        after = after.copy() if after is clean else after
        _add_noise(after, k[:, 5, None], keys)
    return torch.from_numpy(after), torch.from_numpy(clean)


def _pieces(rows: int, numbers: int) -> list[slice]:
    """Of as many rows as fit the cache."""
    some = max(1, NUMBERS_AT_ONCE // max(1, numbers))
    return [slice(first, first + some) for first in range(0, rows, some)]


def _multiply(out: Floats, values: Floats, factor: Floats, rows: Mask | None) -> None:
    """Products; 0 in other rows, whatever the value."""
    if rows is None:
        np.multiply(values, factor, out=out)
    else:
        out.fill(0.0)
        np.multiply(values, factor, out=out, where=rows)


def _add(out: Floats, x: Floats, factor: Floats, rows: Mask | None) -> None:
    """Adds x factor; other rows keep their bits."""
    if rows is None:
        out += x * factor
    else:
        product = np.empty(out.shape, np.float32)
        np.multiply(x, factor, out=product, where=rows)
        np.add(out, product, out=out, where=rows)


def _add_noise(after: Floats, noise: Floats, keys: Tensor) -> None:
    """Rows whose noise is not 0 get some."""
    rows = np.flatnonzero(noise)
    if rows.size == len(noise):
        z = philox_normal(keys, after.shape[1]).numpy()
        z *= noise
        after += z
    else:
        z = philox_normal(torch.from_numpy(keys.numpy()[rows]), after.shape[1]).numpy()
        z *= noise[rows]
        z += after[rows]
        after[rows] = z
