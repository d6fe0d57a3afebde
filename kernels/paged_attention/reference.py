"""Paged attention in plain torch: the CPU path and the oracle of the Triton version.

Rows are computed one by one over a constant number of keys (masked pages are read and weighted
zero): a row's bits cannot depend on its batch mates, and its keys stay in the processor's cache
from the gather to the product. Shapes: r rows, n queries, h heads, e numbers per head, m page
slots, k keys of a page, K = m * k + n keys of a row.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns the pairs (x[2i], x[2i+1]) of [..., n, h, e] by cos, sin [n, e // 2]; dtype of `x`.

    Computed in float32 or wider; differentiable.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    return _real(_pairs(x.to(dtype)) * _turns(cos, sin, x.shape[-2], dtype)).to(x.dtype)


def paged_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    k_pool: Tensor,
    v_pool: Tensor,
    page_table: Tensor,
    cos: Tensor,
    sin: Tensor,
) -> Tensor:
    """One layer: q, k, v [r, n, h, e], pools [pages, k, h, e], cos and sin [m + 1, k, e // 2]."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    readable, masks = readable_pages(page_table), slot_masks(page_table, k_pool.shape[1])
    turns = rotations(cos, sin, q.shape[2], dtype)
    return attend(q, k, v, k_pool, v_pool, readable, masks, turns)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    k_pool: Tensor,
    v_pool: Tensor,
    readable: Tensor,
    masks: Tensor,
    turns: Tensor,
) -> Tensor:
    """The same from what all layers of a forward share: `readable_pages`, `slot_masks` and
    `rotations`. A row's keys are gathered, turned and used while they lie in the cache."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    past, own = readable.shape[1] * k_pool.shape[1], q.shape[1]
    memory = _Memory(q, k_pool, v_pool, past, dtype)
    turned, own_turns = turns[:past], turns[past : past + own]
    queries = _real(_pairs(q.to(dtype)) * own_turns).transpose(1, 2).split(1)
    weights = masks[..., : past + own].to(dtype).split(1)
    rows = zip(readable.unbind(0), _pairs(k.to(dtype)).unbind(0), v.unbind(0), strict=True)
    outs = []
    for query, mask, (pages, own_key, own_value) in zip(queries, weights, rows, strict=True):
        memory.gather(k_pool, v_pool, pages)
        torch.mul(memory.past_pairs, turned, out=memory.past_pairs)
        torch.mul(own_key, own_turns, out=memory.own_pairs)
        memory.own_values.copy_(own_value)
        out = F.scaled_dot_product_attention(query, memory.keys, memory.values, attn_mask=mask)
        outs.append(out.transpose(1, 2))
    return torch.cat(outs).to(q.dtype)


class _Memory:
    """Keys and values [1, h, K, e] of one row, in buffers that the next row overwrites, and their
    parts: past (as pages and as pairs) and own."""

    def __init__(
        self, q: Tensor, k_pool: Tensor, v_pool: Tensor, past: int, dtype: torch.dtype
    ) -> None:
        _, own, heads, width = q.shape
        keys, values = q.new_empty((2, past + own, heads, width), dtype=dtype).unbind(0)
        pages = (-1, *k_pool.shape[1:])
        self.keys, self.values = keys[None].transpose(1, 2), values[None].transpose(1, 2)
        self.past_pairs, self.own_pairs = _pairs(keys[:past]), _pairs(keys[past:])
        self.own_values = values[past:]
        self._keys, self._values = keys[:past].view(pages), values[:past].view(pages)
        self._found_keys = self._keys.to(k_pool.dtype)
        self._found_values = self._values.to(v_pool.dtype)

    def gather(self, k_pool: Tensor, v_pool: Tensor, pages: Tensor) -> None:
        """Un-rotated keys and values of `pages` [m]; pools of another dtype are converted."""
        torch.index_select(k_pool, 0, pages, out=self._found_keys)
        torch.index_select(v_pool, 0, pages, out=self._found_values)
        if self._found_keys is not self._keys:
            self._keys.copy_(self._found_keys)
        if self._found_values is not self._values:
            self._values.copy_(self._found_values)


def readable_pages(page_table: Tensor) -> Tensor:
    """Masked slots read the row's own sink: a value there that is not finite harms nobody else."""
    return torch.where(page_table < 0, page_table[:, :1].clamp(min=0), page_table)


def slot_masks(page_table: Tensor, tokens: int) -> Tensor:
    """float32 [r, 1, 1, (m + 1) * k]: 0 where a key counts, -inf in masked slots; the last k are
    the row's own."""
    rows, slots = page_table.shape
    masks = torch.zeros((rows, slots + 1, tokens), device=page_table.device)
    masks[:, :slots].masked_fill_((page_table < 0).unsqueeze(-1), float("-inf"))
    return masks.view(rows, 1, 1, -1)


def rotations(cos: Tensor, sin: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
    """cos, sin [m + 1, k, e // 2] -> complex [(m + 1) * k, h, e // 2]."""
    return _turns(cos.flatten(0, 1), sin.flatten(0, 1), heads, dtype)


def _turns(cos: Tensor, sin: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
    """[n, e // 2] -> complex [n, h, e // 2], written out so that products run over long rows."""
    turns = torch.complex(cos.to(dtype), sin.to(dtype)).unsqueeze(-2)
    return turns.expand(-1, heads, -1).contiguous()


def _pairs(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.view(*x.shape[:-1], x.shape[-1] // 2, 2))


def _real(x: Tensor) -> Tensor:
    return torch.view_as_real(x).flatten(-2)
