"""One consistency step in plain torch: the CPU path and the oracle of the Triton version.

Products and sums are separate operations (one rounding each), so that vector and scalar loops of
torch give the same bits and a row does not depend on its batch mates.
"""

import torch
from torch import Tensor

from onbeat.kernels.philox_normal.reference import philox_normal


def consistency_step(
    x: Tensor, prediction: Tensor, t: Tensor, s: Tensor, keys: Tensor, kind: str
) -> Tensor:
    """x, prediction float32 [r, N]; t, s [r]; noise keys int64 [r, 6] -> x at s, float32 [r, N]."""
    clean = prediction if kind == "x0" else x - t.float()[:, None] * prediction
    rows = (s > 0).nonzero().squeeze(1)
    scale, noise = (1.0 - s[rows]).float()[:, None], s[rows].float()[:, None]
    z = philox_normal(keys[rows], x.shape[1])
    return torch.index_copy(clean, 0, rows, clean[rows] * scale + z * noise)
