"""Times counter-based noise.

Baseline: torch.randn of the same shape (stateful, and different in every batch shape).
Run: python -m benchmarks.kernels.philox_normal [--threads N]. Prints one JSON line last.
"""

from functools import partial

import torch

from benchmarks.kernels._timing import arguments, compare, report
from onbeat.kernels.philox_normal import philox_normal


def main() -> None:
    device, results = arguments(), []
    for rows, n in ((1, 96), (8, 96), (8, 1536), (16, 1536), (16, 4192)):
        keys = torch.tensor([[7, row, 3, 0, 1, 0] for row in range(rows)], device=device)
        times = compare(
            partial(philox_normal, keys, n), partial(torch.randn, rows, n, device=device), device
        )
        results.append({"rows": rows, "numbers": n, **times})
    report("philox_normal", "torch.randn", device, results)


if __name__ == "__main__":
    main()
