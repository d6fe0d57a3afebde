"""Paged attention in plain torch: the CPU path and the oracle of the Triton version.

Rows are computed one by one over a constant number of keys (masked pages are read and weighted
zero): a row's bits cannot depend on its batch mates, and its keys stay in the processor's cache
from the gather to the product. Shapes: r rows, n queries, h heads, e numbers per head, m page
slots, k keys of a page, K = m * k + n keys of a row.
"""

from collections.abc import Iterator

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
    past, own = page_table.shape[1] * k_pool.shape[1], q.shape[1]
    cos, sin = cos.flatten(0, 1)[: past + own], sin.flatten(0, 1)[: past + own]
    turns = _turns(cos, sin, q.shape[2], dtype)
    queries = _real(_pairs(q.to(dtype)) * turns[past:])
    own_keys = _real(_pairs(k.to(dtype)) * turns[past:])
    masks = _masks(page_table, k_pool.shape[1], own, dtype)
    memories = _memories(own_keys, v.to(dtype), k_pool, v_pool, page_table, turns[:past])
    rows = []
    for i, (keys, values) in enumerate(memories):
        query, mask = queries[i : i + 1].transpose(1, 2), masks[i : i + 1]
        row = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        rows.append(row.transpose(1, 2))
    return torch.cat(rows).to(q.dtype)


def _memories(
    own_keys: Tensor,
    own_values: Tensor,
    k_pool: Tensor,
    v_pool: Tensor,
    page_table: Tensor,
    turns: Tensor,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Row by row: rotated keys and values [1, h, K, e], in buffers that the next row overwrites."""
    _, own, heads, width = own_keys.shape
    past = turns.shape[0]
    keys, values = own_keys.new_empty((2, past + own, heads, width)).unbind(0)
    found = k_pool.new_empty((page_table.shape[1], *k_pool.shape[1:]))
    cached_keys, cached_values = _pairs(keys[:past]), values[:past].view_as(found)
    last_keys, last_values = keys[past:], values[past:]
    found_values = cached_values if v_pool.dtype == values.dtype else found
    memory = keys[None].transpose(1, 2), values[None].transpose(1, 2)
    rows = zip(_readable(page_table).unbind(0), own_keys, own_values, strict=True)
    for pages, row_keys, row_values in rows:
        torch.index_select(k_pool, 0, pages, out=found)
        torch.mul(_pairs(found.view(past, heads, width).to(keys.dtype)), turns, out=cached_keys)
        torch.index_select(v_pool, 0, pages, out=found_values)
        if found_values is found:
            cached_values.copy_(found)
        last_keys.copy_(row_keys)
        last_values.copy_(row_values)
        yield memory


def _readable(page_table: Tensor) -> Tensor:
    """Masked slots read the row's own sink: a value there that is not finite harms nobody else."""
    return torch.where(page_table < 0, page_table[:, :1].clamp(min=0), page_table)


def _masks(page_table: Tensor, tokens: int, own: int, dtype: torch.dtype) -> Tensor:
    """[r, 1, 1, K]: 0 where a key counts, -inf in masked slots."""
    rows, slots = page_table.shape
    mask = torch.zeros((rows, slots * tokens + own), dtype=dtype)
    past = mask[:, : slots * tokens].view(rows, slots, tokens)
    past.masked_fill_((page_table < 0).unsqueeze(-1), float("-inf"))
    return mask[:, None, None, :]


def _turns(cos: Tensor, sin: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
    """[n, e // 2] -> complex [n, h, e // 2], written out so that products run over long rows."""
    turns = torch.complex(cos.to(dtype), sin.to(dtype)).unsqueeze(-2)
    return turns.expand(-1, heads, -1).contiguous()


def _pairs(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.view(*x.shape[:-1], x.shape[-1] // 2, 2))


def _real(x: Tensor) -> Tensor:
    return torch.view_as_real(x).flatten(-2)
