"""Committing keys and values: named pages change, everything else stays."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from onbeat.kernels.store_kv import store_kv


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_reach_their_pages_and_nothing_else_changes(
    problem: Callable[..., Any], dtype: torch.dtype
) -> None:
    _, k, v, kv, _ = problem(3)
    kv = replace(kv, k=kv.k.to(dtype), v=kv.v.to(dtype), write_pages=torch.tensor([7, -1, 2]))
    expected_k, expected_v = kv.k.clone(), kv.v.clone()
    for row, page in ((0, 7), (2, 2)):
        expected_k[1, page], expected_v[1, page] = k[row].to(dtype), v[row].to(dtype)
    store_kv(k, v, kv, 1)
    assert torch.equal(kv.k, expected_k)
    assert torch.equal(kv.v, expected_v)


def test_no_page_no_write(problem: Callable[..., Any]) -> None:
    _, k, v, kv, _ = problem(2)
    before = kv.k.clone()
    store_kv(k, v, kv, 0)
    assert torch.equal(kv.k, before)


def test_part_of_a_page_is_refused(problem: Callable[..., Any]) -> None:
    _, k, v, kv, _ = problem(2)
    with pytest.raises(ValueError, match=r"k has shape \(2, 4, 2, 32\); allowed: \(2, 5, 2, 32\)"):
        store_kv(k[:, :4], v[:, :4], kv, 0)
