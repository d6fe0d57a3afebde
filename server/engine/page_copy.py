"""Copies pages of the KV store to host buffers and back, one layer at a time: bits, not numbers.

A buffer holds a stream's window: `k`, `v` of [layers, pages, page_tokens, heads, head_dim]. Buffers
are made when first needed and kept until the engine closes, so that pausing and resuming for hours
takes no new memory. What it is not: the order of copies (transfer.py), or who may have a buffer
(residency.py).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from onbeat.server.engine.kv_store import KVStore


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBuffer:
    """`k`, `v`: [layers, pages, page_tokens, heads, head_dim] in host memory."""

    k: Tensor
    v: Tensor


class HostBuffers:
    """Buffers of `pages` pages by number, pinned if the store lives on an accelerator."""

    def __init__(self, store: KVStore, pages: int) -> None:
        layers, _, *page = store.k.shape
        self._shape = (layers, pages, *page)
        self._dtype, self._pinned = store.k.dtype, store.k.is_cuda
        self._buffers: dict[int, HostBuffer] = {}

    def __len__(self) -> int:
        return len(self._buffers)

    def get(self, number: int) -> HostBuffer:
        """The same memory for the same number, always."""
        found = self._buffers.get(number)
        if found is None:
            found = self._buffers[number] = HostBuffer(k=self._empty(), v=self._empty())
        return found

    def _empty(self) -> Tensor:
        return torch.empty(self._shape, dtype=self._dtype, pin_memory=self._pinned)


class HostCopier:
    """`PageCopier` for a store in host memory."""

    def __init__(self, store: KVStore, pages: int) -> None:
        self._store = store
        self.buffers = HostBuffers(store, pages)

    @property
    def layers(self) -> int:
        return int(self._store.k.shape[0])

    def page_bytes(self) -> int:
        page = self._store.k[0, 0]
        return 2 * page.numel() * page.element_size()

    @torch.inference_mode()
    def copy_out(self, layer: int, pages: tuple[int, ...], buffer: int) -> None:
        host, index = self.buffers.get(buffer), torch.tensor(pages)
        n = len(pages)
        torch.index_select(self._store.k[layer], 0, index, out=host.k[layer, :n])
        torch.index_select(self._store.v[layer], 0, index, out=host.v[layer, :n])

    @torch.inference_mode()
    def copy_in(self, layer: int, pages: tuple[int, ...], buffer: int) -> None:
        host, index = self.buffers.get(buffer), torch.tensor(pages)
        n = len(pages)
        self._store.k[layer].index_copy_(0, index, host.k[layer, :n])
        self._store.v[layer].index_copy_(0, index, host.v[layer, :n])
