"""Writing pages in Triton: one program per row and token, keys and values together."""
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, no-any-return"

import triton
import triton.language as tl
from torch import Tensor

OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}


def store_kv(k: Tensor, v: Tensor, k_pool: Tensor, v_pool: Tensor, write_pages: Tensor) -> None:
    """One layer: k, v [r, k, h, e] into pools [pages, k, h, e] at `write_pages` [r], -1 = none."""
    rows, tokens, heads, width = k.shape
    assert k.stride(3) == v.stride(3) == 1, (k.stride(), v.stride())
    assert k_pool[0].is_contiguous() and k_pool.stride() == v_pool.stride(), k_pool.stride()
    store_kv_kernel[(rows, tokens)](
        k,
        v,
        k_pool,
        v_pool,
        write_pages,
        *k.stride()[:3],
        *v.stride()[:3],
        k_pool.stride(0),
        HEADS=heads,
        WIDTH=width,
        BLOCK=triton.next_power_of_2(heads * width),
        **OPTIONS,
    )


@triton.jit
def store_kv_kernel(
    k,
    v,
    k_pool,
    v_pool,
    write_pages,
    k_row,
    k_token,
    k_head,
    v_row,
    v_token,
    v_head,
    page_stride,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, token = tl.program_id(0).to(tl.int64), tl.program_id(1)
    page = tl.load(write_pages + row).to(tl.int64)
    if page >= 0:
        i = tl.arange(0, BLOCK)
        inside = i < HEADS * WIDTH
        head, e = i // WIDTH, i % WIDTH
        target = page * page_stride + token * (HEADS * WIDTH) + i
        key = tl.load(k + row * k_row + token * k_token + head * k_head + e, mask=inside)
        value = tl.load(v + row * v_row + token * v_token + head * v_head + e, mask=inside)
        tl.store(k_pool + target, key.to(k_pool.dtype.element_ty), mask=inside)
        tl.store(v_pool + target, value.to(v_pool.dtype.element_ty), mask=inside)
