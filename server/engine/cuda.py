"""The compute lane on CUDA: one stream, graphs per bucket of rows, events instead of waiting.

NOT YET MEASURED: written against the documented interface of torch.cuda where no GPU was at hand.
What could be tested on a CPU (buckets, padding, halves, the plan of recordings) lies in graphs.py.
A launch queues work on the stream and returns; the tick plans the next one meanwhile (ahead.py) and
waits for an event at its end. Nothing inside a tick waits for the device: tables go there through
pinned memory, and no number is read back (a test sets torch's sync debug mode to "error").
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from onbeat.kernels._dispatch import place
from onbeat.models.spec import CausalModel
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.executor import Batch, TorchExecutor
from onbeat.server.engine.graphs import GraphedForward, Work, capture_plan
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.page_copy import HostCopier
from onbeat.server.engine.reference import Reference

T = TypeVar("T")
WARM_UP = 3
"""Runs before a recording: kernels are compiled and workspaces made outside of it."""


class CudaLane:
    """Calls are made at once on the caller's thread; they queue work on the current stream."""

    def launch(self, call: Callable[[], T]) -> Callable[[], T]:
        result, done = call(), torch.cuda.Event()
        done.record()

        def wait() -> T:
            done.synchronize()
            return result

        return wait

    def close(self) -> None:
        torch.cuda.synchronize()


class CudaExecutor(TorchExecutor):
    """`Executor` on a CUDA device. `split_rows`: from so many rows on a batch runs as two halves on
    two streams, so that attention of one overlaps with the MLP of the other; 0: never."""

    def __init__(
        self, model: CausalModel, store: KVStore, *, max_rows: int, split_rows: int = 0
    ) -> None:
        super().__init__(model, store, 1, CudaLane())
        device = store.k.device
        self._stream, self._beside = torch.cuda.Stream(device), torch.cuda.Stream(device)
        shapes = capture_plan(max_rows, split_rows)
        self._graphs = GraphedForward(
            model, store, shapes, record=self._recorded, fork=self._halves
        )
        self._memory: Any = None

    def start(self) -> None:
        """The tick's thread works on this lane's stream from here on; records the graphs."""
        super().start()
        torch.cuda.set_stream(self._stream)
        with torch.inference_mode():
            self._graphs.record()

    def end_chunk(self, state: ChunkState) -> ChunkState:
        """Waits for its own small copy: the decode lane reads it on another stream."""
        ended, done = super().end_chunk(state), torch.cuda.Event()
        done.record()
        done.synchronize()
        return ended

    def encode_reference(self, reference: Reference, index: int) -> ChunkState:
        """Called by the decode lane's thread, which waits: the tick reads it on its own stream."""
        encoded = super().encode_reference(reference, index)
        torch.cuda.current_stream().synchronize()
        return encoded

    def _predict(
        self, batch: Batch, latents: dict[str, Tensor], times: dict[str, Tensor]
    ) -> Mapping[str, Tensor]:
        pieces = [s.piece for s in batch.commits]
        x0 = self._graphs(latents, times, batch.pooled, batch.tables, batch.written, pieces)
        return super()._predict(batch, latents, times) if x0 is None else x0

    def _recorded(self, work: Work) -> Work:
        """Source: the graph example of the torch.cuda documentation (warm-up, then capture)."""
        for _ in range(WARM_UP):
            work()
        self._stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory, stream=self._stream):
            work()
        self._memory = graph.pool()
        return graph.replay

    def _halves(self, first: Work, second: Work) -> None:
        """Two streams that part and meet again; inside a recording they become branches of it."""
        here = torch.cuda.current_stream()
        self._beside.wait_stream(here)
        with torch.cuda.stream(self._beside):
            second()
        first()
        here.wait_stream(self._beside)


class CudaCopier(HostCopier):
    """`PageCopier` between the device and pinned buffers, on a stream for each direction: the copy
    lane's thread waits for each layer, the tick for none."""

    def __init__(self, store: KVStore, pages: int) -> None:
        super().__init__(store, pages)
        self._out, self._in = (torch.cuda.Stream(store.k.device) for _ in range(2))

    @torch.inference_mode()
    def copy_out(self, layer: int, pages: tuple[int, ...], buffer: int) -> None:
        host, n = self.buffers.get(buffer), len(pages)
        with torch.cuda.stream(self._out):
            index = place(torch.tensor(pages), self._store.k.device)
            for there, here in ((host.k, self._store.k), (host.v, self._store.v)):
                there[layer, :n].copy_(here[layer].index_select(0, index), non_blocking=True)
        self._out.synchronize()

    @torch.inference_mode()
    def copy_in(self, layer: int, pages: tuple[int, ...], buffer: int) -> None:
        host, n = self.buffers.get(buffer), len(pages)
        with torch.cuda.stream(self._in):
            index = place(torch.tensor(pages), self._store.k.device)
            for there, here in ((host.k, self._store.k), (host.v, self._store.v)):
                moved = there[layer, :n].to(here.device, non_blocking=True)
                here[layer].index_copy_(0, index, moved)
        self._in.synchronize()
