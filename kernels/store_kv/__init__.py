"""The commit: a finished chunk's keys and values go to their page (see `store_kv`)."""

from torch import Tensor

from onbeat.kernels._dispatch import use_triton
from onbeat.kernels.paged_attention import KVPages
from onbeat.kernels.store_kv import reference

__all__ = ["store_kv"]


def store_kv(k: Tensor, v: Tensor, kv: KVPages, layer: int) -> None:
    """Writes k, v [r, page_tokens, h, e] (keys un-rotated) of one layer to `kv.write_pages`.

    Rows whose page is -1 write nothing; no page may be named twice. Values are cast to the pool's
    dtype. The pool changes in place. Raises ValueError for shapes that do not fill whole pages.
    """
    allowed = (kv.write_pages.shape[0], *kv.k.shape[2:])
    for name, tensor in (("k", k), ("v", v)):
        if tuple(tensor.shape) != allowed:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; allowed: {allowed}")
    inputs = (k, v, kv.k[layer], kv.v[layer])
    if use_triton(k):
        from onbeat.kernels.store_kv.triton import store_kv as fast

        return fast(*inputs, kv.write_pages)
    rows, pages = kv.writing
    if rows.numel():
        reference.store_rows(*inputs, rows, pages)
