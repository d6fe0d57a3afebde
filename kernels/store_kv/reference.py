"""Writing pages in plain torch: the CPU path and the oracle of the Triton version."""

from torch import Tensor


def store_kv(k: Tensor, v: Tensor, k_pool: Tensor, v_pool: Tensor, write_pages: Tensor) -> None:
    """One layer: k, v [r, k, h, e] into pools [pages, k, h, e] at `write_pages` [r], -1 = none."""
    rows = (write_pages >= 0).nonzero().squeeze(1)
    store_rows(k, v, k_pool, v_pool, rows, write_pages[rows])


def store_rows(
    k: Tensor, v: Tensor, k_pool: Tensor, v_pool: Tensor, rows: Tensor, pages: Tensor
) -> None:
    """Only `rows` [w], to `pages` [w]."""
    k_pool.index_copy_(0, pages, k[rows].to(k_pool.dtype))
    v_pool.index_copy_(0, pages, v[rows].to(v_pool.dtype))
