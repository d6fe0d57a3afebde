"""Distances between predictions: one number per row, over the row's whole vector.

Taking the pseudo-Huber distance per element with the vector's c is a known porting fault (it is
then nearly the square); here a row's squares are summed first. Sources: Song and Dhariwal, iCT
(2023), section 3.3; arXiv 2502.01441 (Cauchy, for latents with outliers).
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

DistanceKind = Literal["square", "huber", "cauchy"]
HUBER_SHARE = 0.00054
"""c of the pseudo-Huber distance is this times sqrt(numbers in the vector)."""


@dataclass(frozen=True, kw_only=True)
class Distance:
    """square: mean of squares. huber: sqrt(|d|^2 + c^2) - c. cauchy: ln(1 + |d|^2 / (2 c^2)).

    c: "auto" is 0.00054 sqrt(numbers in the vector); 0 makes huber the plain length |d|.
    """

    kind: DistanceKind = "square"
    c: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        if self.c != "auto" and (self.c < 0.0 or (self.c == 0.0 and self.kind == "cauchy")):
            least = "above 0" if self.kind == "cauchy" else "0 or more"
            raise ValueError(f"c is {self.c}; allowed: {least}, or 'auto'")

    def __call__(self, squares: Tensor, row_axes: int) -> Tensor:
        """Squared errors [*rows, ...] -> [*rows], float32 at least."""
        flat = squares.flatten(row_axes) if squares.dim() > row_axes else squares[..., None]
        size = flat.shape[-1]
        if self.kind == "square":
            return flat.mean(-1)
        c = HUBER_SHARE * math.sqrt(size) if self.c == "auto" else self.c
        length = flat.sum(-1)
        if self.kind == "cauchy":
            return torch.log1p(length / (2.0 * c * c))
        # A square root has no slope at 0: rows without any error get none.
        apart = length > 0.0
        root = (torch.where(apart, length, torch.ones_like(length)) + c * c).sqrt() - c
        return torch.where(apart, root, torch.zeros_like(root))
