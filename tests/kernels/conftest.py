"""An oracle that shares no code with the kernels, and random problems for it."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from onbeat.kernels.paged_attention import KVPages, Rope

Problem = tuple[Tensor, Tensor, Tensor, KVPages, Rope]


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """One token [h, e]; pairs (2i, 2i + 1)."""
    out = torch.empty_like(x)
    out[:, 0::2] = x[:, 0::2] * cos - x[:, 1::2] * sin
    out[:, 1::2] = x[:, 0::2] * sin + x[:, 1::2] * cos
    return out


def _attend(problem: Problem, layer: int, dtype: torch.dtype) -> Tensor:
    """Paged attention by loops over rows, slots and tokens, all in `dtype`."""
    q, k, v, kv, rope = problem
    cos, sin = rope.cos.to(dtype), rope.sin.to(dtype)
    out = []
    for row in range(q.shape[0]):
        keys, values = [], []
        for slot, page in enumerate(kv.page_table[row].tolist()):
            for token in range(kv.k.shape[2] if page >= 0 else 0):
                cached = kv.k[layer, page, token].to(dtype)
                keys.append(_turn(cached, cos[slot, token], sin[slot, token]))
                values.append(kv.v[layer, page, token].to(dtype))
        queries = []
        for token in range(q.shape[1]):
            turn = cos[-1, token], sin[-1, token]
            queries.append(_turn(q[row, token].to(dtype), *turn))
            keys.append(_turn(k[row, token].to(dtype), *turn))
            values.append(v[row, token].to(dtype))
        logits = torch.einsum("nhe,khe->hnk", torch.stack(queries), torch.stack(keys))
        weights = (logits / math.sqrt(q.shape[-1])).softmax(-1)
        out.append(torch.einsum("hnk,khe->nhe", weights, torch.stack(values)))
    return torch.stack(out)


@pytest.fixture
def attend() -> Callable[[Problem, int, torch.dtype], Tensor]:
    return _attend


def _problem(
    rows: int, dtype: torch.dtype = torch.float32, own: int = 5, tokens: int = 5, slots: int = 4
) -> Problem:
    """Random pages for every row; the first rows also have holes in their window."""
    make = torch.Generator().manual_seed(rows)
    heads, width, pages = 2, 32, 11
    q, k, v = torch.randn(3, rows, own, heads, width, generator=make).to(dtype)
    pool = torch.randn(2, 2, pages, tokens, heads, width, generator=make).to(dtype)
    table = torch.randint(0, pages, (rows, slots), generator=make)
    for row in range(min(rows, 2)):
        table[row, 1 : 2 + row] = -1
    angles = torch.randn(slots + 1, tokens, width // 2, generator=make)
    angles[0] = 0.0
    kv = KVPages(k=pool[0], v=pool[1], page_table=table, write_pages=torch.full((rows,), -1))
    return q, k, v, kv, Rope(cos=angles.cos(), sin=angles.sin())


@pytest.fixture
def problem() -> Callable[..., Problem]:
    return _problem


def _budget(problem: Problem, dtype: torch.dtype) -> Tensor:
    """Twice the error of the oracle run in `dtype` plus one rounding, against float64."""
    exact = _attend(problem, 1, torch.float64)
    low = (_attend(problem, 1, dtype).double() - exact).abs().max()
    return 2 * low + torch.finfo(dtype).eps * exact.abs().max()


@pytest.fixture
def budget() -> Callable[[Problem, torch.dtype], Tensor]:
    return _budget
