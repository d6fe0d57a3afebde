"""The Triton versions under Triton's interpreter, against the references.

Not collected by name: test_triton_interpreted.py runs it in a process of its own, because the
interpreter must be switched on before the kernels are decorated. float32 and float16 only: the
interpreter computes bfloat16 wrongly.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from onbeat.kernels.consistency_step import reference as step_reference
from onbeat.kernels.consistency_step import triton as step_triton
from onbeat.kernels.paged_attention import triton as attention_triton
from onbeat.kernels.philox_normal import reference as philox_reference
from onbeat.kernels.philox_normal import triton as philox_triton
from onbeat.kernels.rgb_to_i420 import reference as colour_reference
from onbeat.kernels.rgb_to_i420 import triton as colour_triton
from onbeat.kernels.store_kv import reference as store_reference
from onbeat.kernels.store_kv import triton as store_triton

KEYS = torch.tensor([[2**40 + 7, 2**31 + 5, 3, 1, 2, 0], [5, 1, 2**31 + 3, 200, 65535, 0]])


@pytest.mark.parametrize("n", [3, 1024, 2501])
def test_philox_normal_bit_for_bit(n: int) -> None:
    ours = philox_triton.philox_normal(KEYS, n)
    assert torch.equal(ours, philox_reference.philox_normal(KEYS, n))


def test_consistency_step_bit_for_bit() -> None:
    table = torch.tensor(
        [
            [0.0, 1.0, math.inf, 0.0, 0.25, 0.75],
            [0.0, 1.0, math.inf, 0.0, 1.0, 0.0],
            [14.6, -14.5, math.inf, 0.3, 0.5, 0.2],
            [0.2, 0.5, 1.0, 0.0, 1.0, 3.0],
            [1.0, 0.0, math.inf, 0.0, 1.0, 0.0],
            [0.0, 1.0, math.inf, 0.0, 0.0, 1.0],
        ],
        dtype=torch.float64,
    )
    x, prediction = torch.randn(2, 6, 1100, generator=torch.Generator().manual_seed(0))
    args = (x, prediction, table, torch.cat([KEYS, KEYS + 1, KEYS + 2]))
    ours, reference = step_triton.consistency_step(*args), step_reference.consistency_step(*args)
    for a, b in zip(ours, reference, strict=True):
        assert torch.equal(a.view(torch.int32), b.view(torch.int32))


@pytest.mark.parametrize("size", [(6, 10), (2, 2), (4, 300)])
def test_rgb_to_i420_byte_for_byte(size: tuple[int, int]) -> None:
    make = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (2, *size, 3), generator=make).to(torch.uint8)
    assert torch.equal(colour_triton.rgb_to_i420(frames), colour_reference.rgb_to_i420(frames))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_store_kv_bit_for_bit(problem: Callable[..., Any], dtype: torch.dtype) -> None:
    q, _, _, kv, _ = problem(3)
    k, v = torch.stack((q, -q), dim=2).unbind(2)  # not contiguous, like parts of one projection
    pages = torch.tensor([7, -1, 0])
    pools = [(kv.k[1].to(dtype), kv.v[1].to(dtype)) for _ in range(2)]
    pools = [(a.clone(), b.clone()) for a, b in pools]
    store_triton.store_kv(k, v, *pools[0], pages)
    store_reference.store_kv(k, v, *pools[1], pages)
    assert torch.equal(pools[0][0], pools[1][0]) and torch.equal(pools[0][1], pools[1][1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("own", "tokens"), [(5, 5), (20, 20), (36, 40)])
def test_paged_attention_within_budget(
    problem: Callable[..., Any],
    attend: Callable[..., Any],
    budget: Callable[..., Any],
    dtype: torch.dtype,
    own: int,
    tokens: int,
) -> None:
    case = problem(2, dtype, own=own, tokens=tokens, slots=3)
    q, k, v, kv, rope = case
    inputs = (kv.k[1], kv.v[1], kv.page_table, rope.cos, rope.sin)
    out = attention_triton.paged_attention(q, k, v, *inputs)
    error = (out.double() - attend(case, 1, torch.float64)).abs().max()
    assert error <= budget(case, dtype)


def test_paged_attention_row_has_the_same_bits_in_any_batch(problem: Callable[..., Any]) -> None:
    q, k, v, kv, rope = problem(3)

    def run(rows: list[int]) -> torch.Tensor:
        picked = replace(kv, page_table=kv.page_table[rows])
        inputs = (picked.k[0], picked.v[0], picked.page_table, rope.cos, rope.sin)
        return attention_triton.paged_attention(q[rows], k[rows], v[rows], *inputs)

    together = run([0, 1, 2])
    assert torch.equal(run([2, 0]), together[[2, 0]])
    assert torch.equal(run([1]), together[[1]])
