"""Times the ragged consistency step where every second row ends (s = 0 draws nothing).

Baseline: torch.randn and the blend for all rows (stateful noise).
Run: python -m benchmarks.kernels.consistency_step [--threads N]. Prints one JSON line last.
"""

import math
from functools import partial

import torch
from torch import Tensor

from benchmarks.kernels._timing import arguments, compare, report
from onbeat.kernels.consistency_step import consistency_step


def blend(x0: Tensor, s: Tensor) -> Tensor:
    return (1.0 - s[:, None]) * x0 + s[:, None] * torch.randn_like(x0)


def main() -> None:
    device, results = arguments(), []
    for rows in (1, 8, 16):
        x, prediction = torch.randn(2, rows, 1536, device=device)
        s = torch.tensor([0.75, 0.0] * rows, device=device)[:rows]
        table = torch.tensor(
            [[0.0, 1.0, math.inf, 0.0, 1.0 - level, level] for level in s.tolist()],
            dtype=torch.float64,
            device=device,
        )
        keys = torch.tensor([[7, row, 3, 0, 1, 0] for row in range(rows)], device=device)
        times = compare(
            partial(consistency_step, x, prediction, table, keys),
            partial(blend, prediction, s),
            device,
        )
        results.append({"rows": rows, "numbers": 1536, **times})
    report("consistency_step", "torch.randn and blend", device, results)


if __name__ == "__main__":
    main()
