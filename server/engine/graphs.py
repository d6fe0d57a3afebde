"""Forwards of fixed shapes: buckets of rows, padding rows, and a batch in two halves.

A CUDA graph replays work on the same memory every time, so a batch is copied into the buffers of
the smallest bucket that holds it, and the rows left over are padding: they read no page, write
none, and nobody reads them. What it is not: CUDA itself (cuda.py hands in how work is recorded and
how two halves run beside each other), so that all of it is tested on a CPU.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from onbeat.kernels._dispatch import place
from onbeat.kernels.paged_attention import KVPages
from onbeat.models.spec import CausalModel, ModelSpec
from onbeat.server.engine.cost import sizes_to
from onbeat.server.engine.kv_store import KVStore

Work = Callable[[], None]
Record = Callable[[Work], Work]
"""Runs work once or more and returns what repeats it, on the same memory."""
Fork = Callable[[Work, Work], None]
"""Runs two pieces of work that do not depend on each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a graph is recorded for: `rows` of a bucket, in one piece or in two halves."""

    rows: int
    halves: bool


def capture_plan(max_rows: int, split_rows: int) -> list[Shape]:
    """Every shape that a batch of up to `max_rows` rows may need; buckets of at least `split_rows`
    rows (0: none) in halves too."""
    buckets = sizes_to(max_rows)
    whole = [Shape(rows=rows, halves=False) for rows in buckets]
    split = [
        Shape(rows=rows, halves=True) for rows in buckets if 1 < rows and 0 < split_rows <= rows
    ]
    return whole + split


def choose(shapes: Sequence[Shape], rows: int, pieces: Sequence[int]) -> Shape | None:
    """The smallest shape that holds `rows` rows, in halves where that is recorded and the cut goes
    through no piece (`pieces`: the row counts of consecutive commits at the batch's end: their rows
    read what the rows before them write). None if the batch is larger than all of them."""
    fitting = [s for s in shapes if s.rows >= rows]
    if not fitting:
        return None
    bucket = min(s.rows for s in fitting)
    halves = Shape(rows=bucket, halves=True)
    if halves in fitting and _is_clean(bucket // 2, rows, pieces):
        return halves
    return Shape(rows=bucket, halves=False)


def _is_clean(cut: int, rows: int, pieces: Sequence[int]) -> bool:
    """Whether no piece has rows on both sides of row `cut`."""
    start = rows - sum(pieces)
    for count in pieces:
        if start < cut < start + count:
            return False
        start += count
    return True


class Buffers:
    """The inputs and outputs of one bucket. Rows beyond the batch are padding."""

    def __init__(self, spec: ModelSpec, store: KVStore, rows: int) -> None:
        device = store.k.device
        self.rows = rows
        self.latents = {
            m.name: torch.zeros(rows, m.tokens, m.dim, device=device) for m in spec.modalities
        }
        self.times = {name: torch.ones(rows, device=device) for name in spec.time_names}
        self.pooled = torch.zeros(rows, spec.cond_dim, device=device)
        self.tables = torch.full((rows, spec.page_slots), -1, device=device)
        self.written = torch.full((rows,), -1, device=device)
        self.x0 = {name: torch.zeros_like(x) for name, x in self.latents.items()}

    def fill(
        self,
        latents: Mapping[str, Tensor],
        times: Mapping[str, Tensor],
        pooled: Sequence[Tensor],
        tables: Sequence[Sequence[int]],
        written: Sequence[int],
    ) -> None:
        """Copies a batch in, without waiting for anything; padding writes to no page."""
        rows, spare = len(written), self.rows - len(written)
        for name, x in latents.items():
            self.latents[name][:rows].copy_(x)
        for name, t in times.items():
            self.times[name][:rows].copy_(t)
        torch.stack(list(pooled), out=self.pooled[:rows])
        blank = [-1] * self.tables.shape[1]
        padded = torch.tensor([*tables, *[blank] * spare], dtype=torch.int64)
        self.tables.copy_(place(padded, self.tables.device))
        pages = torch.tensor([*written, *[-1] * spare], dtype=torch.int64)
        self.written.copy_(place(pages, self.written.device))


class GraphedForward:
    """`model.denoise` on recorded shapes, for up to `max_rows` rows."""

    def __init__(
        self,
        model: CausalModel,
        store: KVStore,
        shapes: Sequence[Shape],
        *,
        record: Record,
        fork: Fork,
    ) -> None:
        self._model, self._store, self._shapes = model, store, list(shapes)
        self._record, self._fork = record, fork
        self._buffers = {
            rows: Buffers(model.spec, store, rows) for rows in {s.rows for s in shapes}
        }
        self._replays: dict[Shape, Work] = {}

    def record(self) -> None:
        """Records every shape, largest first, so that smaller ones fit into its memory."""
        for shape in sorted(self._shapes, key=lambda s: -s.rows):
            if shape not in self._replays:
                self._replays[shape] = self._record(partial(self._work, shape))

    def __call__(
        self,
        latents: Mapping[str, Tensor],
        times: Mapping[str, Tensor],
        pooled: Sequence[Tensor],
        tables: Sequence[Sequence[int]],
        written: Sequence[int],
        pieces: Sequence[int],
    ) -> dict[str, Tensor] | None:
        """x0 of every row in memory of its own; None if no recorded shape holds the batch."""
        shape = choose(self._shapes, len(written), pieces)
        if shape is None:
            return None
        buffers = self._buffers[shape.rows]
        buffers.fill(latents, times, pooled, tables, written)
        self._replays[shape]()
        return {name: x[: len(written)].clone() for name, x in buffers.x0.items()}

    def _work(self, shape: Shape) -> None:
        rows, cut = shape.rows, shape.rows // 2
        if shape.halves:
            self._fork(
                partial(self._denoise, rows, 0, cut), partial(self._denoise, rows, cut, rows)
            )
        else:
            self._denoise(rows, 0, rows)

    def _denoise(self, bucket: int, first: int, last: int) -> None:
        """Rows `first` to `last` of a bucket's buffers."""
        b, part = self._buffers[bucket], slice(first, last)
        kv = KVPages(
            k=self._store.k,
            v=self._store.v,
            page_table=b.tables[part],
            write_pages=b.written[part],
        )
        latents = {name: x[part] for name, x in b.latents.items()}
        times = {name: x[part] for name, x in b.times.items()}
        for name, x in self._model.denoise(latents, times, b.pooled[part], kv).items():
            b.x0[name][part].copy_(x)
