"""Times the commit of keys and values at the embedded model's shapes, one layer.

Baseline: one contiguous copy of the same numbers.
Run: python -m benchmarks.kernels.store_kv [--threads N]. Prints one JSON line last.
"""

from dataclasses import replace
from functools import partial

import torch

from benchmarks.kernels._timing import arguments, compare, report
from benchmarks.kernels.paged_attention import PAGES, problem
from onbeat.kernels.store_kv import store_kv


def main() -> None:
    device, results = arguments(), []
    for rows in (1, 8, 16):
        _, k, v, kv, _ = problem(rows, device)
        kv = replace(kv, write_pages=torch.randperm(PAGES, device=device)[:rows])
        both = torch.stack((k, v))
        times = compare(partial(store_kv, k, v, kv, 3), partial(torch.clone, both), device)
        results.append({"rows": rows, **times})
    report("store_kv", "contiguous copy", device, results)


if __name__ == "__main__":
    main()
