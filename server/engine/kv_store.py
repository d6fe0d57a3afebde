"""The keys and values of every page: preallocated tensors, seen by a model through page tables.

What it is not: the books of who holds a page (pool.py).
"""

from collections.abc import Sequence

import torch

from onbeat.kernels._dispatch import place
from onbeat.kernels.paged_attention import KVPages
from onbeat.models.spec import ModelSpec


class KVStore:
    """`k`, `v`: [layers, pages, page_tokens, heads, head_dim], keys un-rotated."""

    def __init__(
        self,
        spec: ModelSpec,
        pages: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        shape = (spec.layers, pages, spec.page_tokens, spec.heads, spec.head_dim)
        self.k = torch.zeros(shape, dtype=dtype, device=device)
        self.v = torch.zeros(shape, dtype=dtype, device=device)

    def view(self, tables: Sequence[Sequence[int]], write_pages: Sequence[int]) -> KVPages:
        """The pages as a model sees them: a table of equal width for each row."""
        width = len(tables[0])
        assert all(len(table) == width for table in tables), [len(t) for t in tables]
        return KVPages(
            k=self.k,
            v=self.v,
            page_table=place(torch.tensor(tables, dtype=torch.int64), self.k.device),
            write_pages=place(torch.tensor(write_pages, dtype=torch.int64), self.k.device),
        )
