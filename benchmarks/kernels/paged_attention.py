"""Times paged attention at the embedded model's shapes: 20 tokens over 13 pages of 20, one layer.

Baseline: the same attention over keys that already lie contiguous and turned (no paging at all).
Run: python -m benchmarks.kernels.paged_attention [--threads N]. Prints one JSON line last.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.kernels._timing import arguments, compare, report
from onbeat.kernels.paged_attention import KVPages, Rope, paged_attention

TOKENS, HEADS, WIDTH, SLOTS, PAGES, LAYERS = 20, 6, 32, 13, 256, 8


def problem(rows: int, device: str) -> tuple[Tensor, Tensor, Tensor, KVPages, Rope]:
    q, k, v = torch.randn(3, rows, TOKENS, HEADS, WIDTH, device=device)
    pool = torch.randn(2, LAYERS, PAGES, TOKENS, HEADS, WIDTH, device=device)
    table = torch.randint(0, PAGES, (rows, SLOTS), device=device)
    angles = torch.randn(SLOTS + 1, TOKENS, WIDTH // 2, device=device)
    none = torch.full((rows,), -1, device=device)
    kv = KVPages(k=pool[0], v=pool[1], page_table=table, write_pages=none)
    return q, k, v, kv, Rope(cos=angles.cos(), sin=angles.sin())


def main() -> None:
    device, results = arguments(), []
    for rows in (1, 2, 4, 8, 16):
        q, k, v, kv, rope = problem(rows, device)
        keys, values = torch.randn(2, rows, HEADS, (SLOTS + 1) * TOKENS, WIDTH, device=device)
        times = compare(
            partial(paged_attention, q, k, v, kv, 3, rope),
            partial(F.scaled_dot_product_attention, q.transpose(1, 2), keys, values),
            device,
        )
        results.append({"rows": rows, **times, "ms_per_row": round(times["ms"] / rows, 4)})
    report("paged_attention", "contiguous attention, no mask", device, results)


if __name__ == "__main__":
    main()
