"""Attention of chunk rows over a paged cache of un-rotated keys (see `paged_attention`)."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class KVPages:
    """The pool as a model sees it during one forward.

    k, v: [layers, pages, page_tokens, heads, head_dim], keys un-rotated.
    page_table: int64 [rows, slots]; slot 0 is the sink, the window is right-aligned (oldest to
    newest in slots 1..), -1 where there is no page. A slot's index is its position in time, so the
    rotation of a slot is the same for every row and every chunk.
    write_pages: int64 [rows]; the page that receives a row's keys and values, -1 for none.
    """

    k: Tensor
    v: Tensor
    page_table: Tensor
    write_pages: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotation per page slot: cos, sin float32 [slots + 1, page_tokens, head_dim // 2]; the last
    entry is the row's own chunk, entry 0 (the sink) is the identity."""

    cos: Tensor
    sin: Tensor
