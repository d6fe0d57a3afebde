"""Paged attention on the CPU: right against float64, exact whatever the batch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from onbeat.kernels.paged_attention import Rope, paged_attention, rotate


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_agrees_with_float64(
    problem: Callable[..., Any],
    attend: Callable[..., Any],
    budget: Callable[..., Any],
    dtype: torch.dtype,
) -> None:
    q, k, v, kv, rope = case = problem(3, dtype)
    out = paged_attention(q, k, v, kv, 1, rope)
    error = (out.double() - attend(case, 1, torch.float64)).abs().max()
    assert out.dtype == dtype
    assert error <= budget(case, dtype)


def test_low_precision_pool_under_float32_rows(
    problem: Callable[..., Any], attend: Callable[..., Any]
) -> None:
    q, k, v, kv, rope = problem(2)
    kv = replace(kv, k=kv.k.bfloat16(), v=kv.v.bfloat16())
    exact = attend((q, k, v, kv, rope), 0, torch.float64)
    assert torch.allclose(paged_attention(q, k, v, kv, 0, rope).double(), exact, atol=1e-5)


def test_a_chunk_shorter_than_a_page(
    problem: Callable[..., Any], attend: Callable[..., Any]
) -> None:
    q, k, v, kv, rope = case = problem(2, own=3)
    exact = attend(case, 0, torch.float64)
    assert torch.allclose(paged_attention(q, k, v, kv, 0, rope).double(), exact, atol=1e-5)


def test_without_pages_it_is_self_attention(problem: Callable[..., Any]) -> None:
    q, k, v, kv, rope = problem(2)
    none = replace(kv, page_table=kv.page_table[:, :0])
    alone = paged_attention(q, k, v, none, 0, Rope(cos=rope.cos[-1:], sin=rope.sin[-1:]))
    masked = replace(kv, page_table=torch.full_like(kv.page_table, -1))
    assert torch.allclose(alone, paged_attention(q, k, v, masked, 0, rope), atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_has_the_same_bits_in_any_batch(problem: Callable[..., Any], threads: int) -> None:
    q, k, v, kv, rope = problem(12, own=20, tokens=20, slots=13)
    draw = torch.Generator().manual_seed(1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        alone = [
            paged_attention(
                q[i : i + 1],
                k[i : i + 1],
                v[i : i + 1],
                replace(kv, page_table=kv.page_table[i : i + 1]),
                0,
                rope,
            )
            for i in range(12)
        ]
        for size in (1, 2, 3, 5, 7, 11, 12):
            rows = torch.randperm(12, generator=draw)[:size]
            picked = replace(kv, page_table=kv.page_table[rows])
            out = paged_attention(q[rows], k[rows], v[rows], picked, 0, rope)
            assert torch.equal(out, torch.cat([alone[i] for i in rows.tolist()]))
    finally:
        torch.set_num_threads(before)


def test_another_streams_broken_page_harms_nobody(problem: Callable[..., Any]) -> None:
    q, k, v, kv, rope = problem(2)
    before = paged_attention(q, k, v, kv, 0, rope)
    unused = next(p for p in range(11) if not (kv.page_table == p).any())
    kv.k[:, unused], kv.v[:, unused] = float("nan"), float("nan")
    assert torch.equal(before, paged_attention(q, k, v, kv, 0, rope))


def test_inputs_do_not_change(problem: Callable[..., Any]) -> None:
    q, k, v, kv, rope = problem(2)
    copies = [x.clone() for x in (q, k, v, kv.k, kv.v)]
    paged_attention(q, k, v, kv, 0, rope)
    assert all(torch.equal(a, b) for a, b in zip(copies, (q, k, v, kv.k, kv.v), strict=True))


def test_rotation_turns_pairs_and_keeps_the_dtype() -> None:
    x = torch.tensor([1.0, 0.0, 0.0, 2.0]).view(1, 1, 4).bfloat16()
    quarter = rotate(x, torch.zeros(1, 2), torch.ones(1, 2))
    assert quarter.dtype == torch.bfloat16
    assert quarter.flatten().tolist() == [0.0, 1.0, -2.0, 0.0]


def test_shapes_that_do_not_fit_are_named(problem: Callable[..., Any]) -> None:
    q, k, v, kv, rope = problem(2)
    with pytest.raises(ValueError, match="kv.page_table"):
        paged_attention(q, k, v, replace(kv, page_table=kv.page_table[:1]), 0, rope)
    with pytest.raises(ValueError, match="rope.cos"):
        paged_attention(q, k, v, kv, 0, Rope(cos=rope.cos[1:], sin=rope.sin[1:]))
    with pytest.raises(ValueError, match="q has 6 rows per chunk; allowed: at most 5"):
        long = torch.cat((q, q[:, :1]), 1)
        paged_attention(long, long, long, kv, 0, rope)
    with pytest.raises(ValueError, match="inference_mode"):
        paged_attention(q.requires_grad_(), k, v, kv, 0, rope)
