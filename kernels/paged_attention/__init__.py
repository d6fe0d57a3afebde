"""Attention of chunk rows over a paged cache of un-rotated keys (see `paged_attention`)."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from onbeat.kernels._dispatch import use_triton
from onbeat.kernels.paged_attention import reference
from onbeat.kernels.paged_attention.reference import rotate

__all__ = ["KVPages", "Rope", "paged_attention", "rotate"]


@dataclass(frozen=True, kw_only=True, eq=False)
class KVPages:
    """The pool as a model sees it during one forward.

    k, v: [layers, pages, page_tokens, heads, head_dim], keys un-rotated.
    page_table: int64 [rows, slots]; slot 0 is the sink, the window is right-aligned (oldest to
    newest in slots 1..), -1 where there is no page. A slot's index is its position in time, so the
    rotation of a slot is the same for every row and every chunk.
    write_pages: int64 [rows]; the page that receives a row's keys and values, -1 for none.
    The two tables do not change once they are here: what the CPU path derives from them is shared
    by all layers of a forward.
    """

    k: Tensor
    v: Tensor
    page_table: Tensor
    write_pages: Tensor

    @cached_property
    def readable(self) -> Tensor:
        return reference.readable_pages(self.page_table)

    @cached_property
    def masks(self) -> Tensor:
        return reference.slot_masks(self.page_table, self.k.shape[2])

    @cached_property
    def writing(self) -> tuple[Tensor, Tensor]:
        """The rows that write and their pages."""
        rows = (self.write_pages >= 0).nonzero().squeeze(1)
        return rows, self.write_pages[rows]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rope:
    """Rotation per page slot: cos, sin float32 [slots + 1, page_tokens, head_dim // 2]; the last
    entry is the row's own chunk, entry 0 (the sink) is the identity."""

    cos: Tensor
    sin: Tensor


def paged_attention(q: Tensor, k: Tensor, v: Tensor, kv: KVPages, layer: int, rope: Rope) -> Tensor:
    """Attention of each row's chunk to the row's pages and to the chunk itself, without a mask.

    q, k, v: [r, n, h, e], un-rotated, n <= page_tokens; own queries and keys are turned by the last
    entry of `rope`, cached keys by the entry of their slot (interleaved pairs, see `rotate`).
    Pages are whole; slots of -1 count for nothing; a table of width 0 is self-attention.
    Scale 1 / sqrt(e). Returns [r, n, h, e] in the dtype of `q`, accumulated in float32.
    Each row has the same bits in any batch. Inference only: call it without gradients. Raises
    ValueError for shapes that do not fit.
    """
    if q.requires_grad and torch.is_grad_enabled():
        raise ValueError("q requires a gradient; allowed: calls under torch.inference_mode()")
    _check(q, k, v, kv, rope)
    inputs = (q, k, v, kv.k[layer], kv.v[layer])
    if use_triton(q):
        from onbeat.kernels.paged_attention.triton import paged_attention as fast

        return fast(*inputs, kv.page_table, rope.cos, rope.sin)
    turns = _turns(rope, q.shape[2], torch.promote_types(q.dtype, torch.float32))
    return reference.attend(*inputs, kv.readable, kv.masks, turns)


@lru_cache(maxsize=8)
def _turns(rope: Rope, heads: int, dtype: torch.dtype) -> Tensor:
    """The same for every layer of every forward of a model."""
    return reference.rotations(rope.cos, rope.sin, heads, dtype)


def _check(q: Tensor, k: Tensor, v: Tensor, kv: KVPages, rope: Rope) -> None:
    rows, queries, heads, width = q.shape
    tokens, slots = kv.k.shape[2], kv.page_table.shape[1]
    _expect("k", k.shape, q.shape)
    _expect("v", v.shape, q.shape)
    _expect("kv.v", kv.v.shape, kv.k.shape)
    _expect("kv.k", kv.k.shape[3:], (heads, width))
    _expect("kv.page_table", kv.page_table.shape[:1], (rows,))
    _expect("rope.cos", rope.cos.shape, (slots + 1, tokens, width // 2))
    _expect("rope.sin", rope.sin.shape, rope.cos.shape)
    if queries > tokens:
        raise ValueError(f"q has {queries} rows per chunk; allowed: at most {tokens} (page_tokens)")


def _expect(name: str, shape: tuple[int, ...], allowed: tuple[int, ...]) -> None:
    if tuple(shape) != tuple(allowed):
        raise ValueError(f"{name} has shape {tuple(shape)}; allowed: {tuple(allowed)}")
