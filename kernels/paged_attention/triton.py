"""Paged attention in Triton: one program per query tile, row and head, online softmax over pages.

Keys are turned on their way from the page to the product. The two halves of a pair stay apart (a
product does not care about the order of its terms), so nothing is put together again. Pages of -1
are skipped, the order of tiles is fixed and nothing is split over programs: a row has the same bits
in any batch. Source: Dao, FlashAttention-2 (2023), algorithm 1.
"""
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

OPTIONS = {"num_stages": 2, "enable_fp_fusion": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Queries and keys per tile, and the warps of a program."""

    queries: int
    keys: int
    warps: int


def tiles(tokens: int, width: int, itemsize: int) -> Tiles:
    """The tile table, by page size, head width and bytes per number: no tuning at run time."""
    if itemsize > 2:
        size = 32 if width <= 64 else 16
        return Tiles(queries=size, keys=size, warps=8)
    if tokens <= 32:
        return Tiles(queries=32, keys=32, warps=4)
    return Tiles(queries=64, keys=64, warps=4 if width <= 64 else 8)


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
    """One layer: q, k, v [r, n, h, e], pools [pages, k, h, e], cos and sin [m + 1, k, e // 2].

    e is a power of two, 32 or more; q, k and v share a dtype, in which products are taken.
    """
    rows, own, heads, width = q.shape
    tokens = k_pool.shape[1]
    assert width >= 32 and width == triton.next_power_of_2(width), width
    assert q.dtype == k.dtype == v.dtype, (q.dtype, k.dtype, v.dtype)
    assert all(x.stride(3) == 1 for x in (q, k, v)), [x.stride() for x in (q, k, v)]
    assert k_pool[0].is_contiguous() and k_pool.stride() == v_pool.stride(), k_pool.stride()
    assert all(x.is_contiguous() for x in (page_table, cos, sin))
    out = torch.empty((rows, own, heads, width), dtype=q.dtype, device=q.device)
    shape = tiles(tokens, width, q.element_size())
    grid = (triton.cdiv(own, shape.queries), rows * heads)
    paged_attention_kernel[grid](
        q,
        k,
        v,
        k_pool,
        v_pool,
        page_table,
        cos,
        sin,
        out,
        *q.stride()[:3],
        *k.stride()[:3],
        *v.stride()[:3],
        own,
        page_table.shape[1],
        k_pool.stride(0),
        1.0 / (math.sqrt(width) * math.log(2.0)),
        HEADS=heads,
        WIDTH=width,
        TOKENS=tokens,
        QUERIES=shape.queries,
        KEYS=shape.keys,
        num_warps=shape.warps,
        **OPTIONS,
    )
    return out


@triton.jit
def paged_attention_kernel(
    q,
    k,
    v,
    k_pool,
    v_pool,
    page_table,
    cos,
    sin,
    out,
    q_row,
    q_token,
    q_head,
    k_row,
    k_token,
    k_head,
    v_row,
    v_token,
    v_head,
    own,
    slots,
    page_stride,
    scale,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    TOKENS: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    row, head = (tl.program_id(1) // HEADS).to(tl.int64), tl.program_id(1) % HEADS
    first = tl.program_id(0) * QUERIES
    turn = slots * TOKENS * (WIDTH // 2)
    even, odd = _turned(
        q + row * q_row + head * q_head, q_token, cos + turn, sin + turn, first, own, QUERIES, WIDTH
    )
    top = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    acc = tl.zeros([QUERIES, WIDTH], tl.float32)
    for slot in range(slots):
        page = tl.load(page_table + row * slots + slot).to(tl.int64)
        if page >= 0:
            place = page * page_stride + head * WIDTH
            turn = slot * TOKENS * (WIDTH // 2)
            for start in range(0, TOKENS, KEYS):
                top, total, acc = _attend(
                    even, odd, top, total, acc, scale, k_pool + place, v_pool + place,
                    HEADS * WIDTH, HEADS * WIDTH, cos + turn, sin + turn, start, TOKENS,
                    KEYS, WIDTH,
                )  # fmt: skip
    turn = slots * TOKENS * (WIDTH // 2)
    for start in range(0, own, KEYS):
        top, total, acc = _attend(
            even, odd, top, total, acc, scale, k + row * k_row + head * k_head,
            v + row * v_row + head * v_head, k_token, v_token, cos + turn, sin + turn, start, own,
            KEYS, WIDTH,
        )  # fmt: skip
    i, e = first + tl.arange(0, QUERIES), tl.arange(0, WIDTH)
    target = out + ((row * own + i) * HEADS + head)[:, None] * WIDTH + e[None, :]
    result = (acc / total[:, None]).to(out.dtype.element_ty)
    tl.store(target, result, mask=(i < own)[:, None])


@triton.jit
def _attend(
    even, odd, top, total, acc, scale, k, v, k_token, v_token, cos, sin, start, count,
    KEYS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Adds keys start..start + KEYS of `count` to the running softmax."""
    k_even, k_odd = _turned(k, k_token, cos, sin, start, count, KEYS, WIDTH)
    k_even, k_odd = k_even.to(even.dtype), k_odd.to(odd.dtype)
    logits = tl.dot(even, tl.trans(k_even), input_precision="ieee")
    logits = tl.dot(odd, tl.trans(k_odd), acc=logits, input_precision="ieee") * scale
    i, e = start + tl.arange(0, KEYS), tl.arange(0, WIDTH)
    inside = i < count
    logits = tl.where(inside[None, :], logits, float("-inf"))
    new_top = tl.maximum(top, tl.max(logits, 1))
    weights = tl.exp2(logits - new_top[:, None])
    shrink = tl.exp2(top - new_top)
    place = i[:, None].to(tl.int64) * v_token + e[None, :]
    values = tl.load(v + place, mask=inside[:, None], other=0.0)
    acc = tl.dot(
        weights.to(even.dtype),
        values.to(even.dtype),
        acc=acc * shrink[:, None],
        input_precision="ieee",
    )
    return new_top, total * shrink + tl.sum(weights, 1), acc


@triton.jit
def _turned(x, token_stride, cos, sin, start, count, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Rows start..start + ROWS of x [count, WIDTH], turned: two halves [ROWS, WIDTH // 2]."""
    HALF: tl.constexpr = WIDTH // 2
    i, e = start + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    inside = (i < count)[:, None]
    row = tl.load(x + i[:, None].to(tl.int64) * token_stride + e[None, :], mask=inside, other=0.0)
    even, odd = tl.split(tl.reshape(row, [ROWS, HALF, 2]))
    even, odd = even.to(tl.float32), odd.to(tl.float32)
    angle = i[:, None] * HALF + tl.arange(0, HALF)[None, :]
    c = tl.load(cos + angle, mask=inside, other=1.0)
    s = tl.load(sin + angle, mask=inside, other=0.0)
    dtype: tl.constexpr = row.dtype
    return (even * c - odd * s).to(dtype), (even * s + odd * c).to(dtype)
