"""Paged attention in plain torch: the CPU path and the oracle of the Triton version.

Every row sees the same number of keys (masked pages are read and weighted zero), so the bits of a
row do not depend on its batch mates. Shapes: r rows, n queries, h heads, e numbers per head,
m page slots, k keys of a page, K = m * k + n keys of a row.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns the pairs (x[2i], x[2i+1]) of [..., n, h, e] by cos, sin [n, e // 2]; dtype of `x`."""
    wide = x if x.dtype == torch.float64 else x.float()
    turn = torch.complex(cos.to(wide.dtype), sin.to(wide.dtype)).unsqueeze(-2)
    turn = turn.expand(*turn.shape[:-2], x.shape[-2], -1).contiguous()
    pairs = torch.view_as_complex(wide.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)


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
    pages = _readable(page_table)
    slots, tokens = page_table.shape[1], k_pool.shape[1]
    cos, sin = cos.flatten(0, 1), sin.flatten(0, 1)
    end = slots * tokens + q.shape[1]
    keys = rotate(_with_own(k_pool, pages, k, dtype), cos[:end], sin[:end])
    queries = rotate(q.to(dtype), cos[slots * tokens : end], sin[slots * tokens : end])
    out = F.scaled_dot_product_attention(
        queries.transpose(1, 2),
        keys.transpose(1, 2),
        _with_own(v_pool, pages, v, dtype).transpose(1, 2),
        attn_mask=_mask(page_table, tokens, q.shape[1], dtype),
    )
    return out.transpose(1, 2).to(q.dtype)


def _readable(page_table: Tensor) -> Tensor:
    """Masked slots read the row's own sink: a value there that is not finite harms nobody else."""
    return torch.where(page_table < 0, page_table[:, :1].clamp(min=0), page_table)


def _with_own(pool: Tensor, pages: Tensor, own: Tensor, dtype: torch.dtype) -> Tensor:
    rows, slots = pages.shape
    past = pool.index_select(0, pages.flatten()).view(rows, slots * pool.shape[1], *pool.shape[2:])
    return torch.cat((past.to(dtype), own.to(dtype)), dim=1)


def _mask(page_table: Tensor, tokens: int, own: int, dtype: torch.dtype) -> Tensor:
    """[r, 1, 1, K]: 0 where a key counts, -inf in masked slots."""
    rows, slots = page_table.shape
    mask = torch.zeros((rows, slots * tokens + own), dtype=dtype, device=page_table.device)
    past = mask[:, : slots * tokens].view(rows, slots, tokens)
    past.masked_fill_((page_table < 0).unsqueeze(-1), float("-inf"))
    return mask[:, None, None, :]
