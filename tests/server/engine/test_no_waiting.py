"""Nothing inside a tick waits for the device: no number is read back between launch and outcome.

On the CPU the places are counted that would wait on a GPU. The ops that have a Triton version there
are left out by stand-ins: their CPU references may look at numbers.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from onbeat.models.toybox import model as toybox
from onbeat.models.toybox.model import Toybox
from onbeat.samplers import consistency
from onbeat.server.engine.cuda import CudaExecutor
from onbeat.server.engine.kv_store import KVStore
from tests.server.engine.test_executor import Bench

READS = {
    Tensor.item,
    Tensor.tolist,
    Tensor.numpy,
    Tensor.cpu,
    Tensor.nonzero,
    Tensor.__bool__,
    Tensor.__int__,
    Tensor.__float__,
    Tensor.__index__,
    torch.nonzero,
    torch.equal,
}
READING_OPS = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique")


class Reads(TorchFunctionMode):
    """Names of the calls that read numbers back."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in READS:
            self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class ReadingOps(TorchDispatchMode):
    """The same one layer down, where torch itself does it; and picking by a mask of booleans."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = func.overloadpacket.__name__
        if name in READING_OPS or (name.startswith("index") and _has_mask(args)):
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def _has_mask(args: Sequence[Any]) -> bool:
    lists = [x for x in args if isinstance(x, list | tuple)]
    return any(isinstance(x, Tensor) and x.dtype == torch.bool for part in lists for x in part)


@pytest.fixture
def device_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins of the right shapes for the ops that are kernels on a GPU."""

    def attention(q: Tensor, *_: Any) -> Tensor:
        return q * 0.5

    def step(x: Tensor, prediction: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        return x + prediction, prediction * 1.0

    monkeypatch.setattr(toybox, "paged_attention", attention)
    monkeypatch.setattr(toybox, "store_kv", lambda *_: None)
    monkeypatch.setattr(consistency, "consistency_step", step)


def test_the_counters_see_what_they_should() -> None:
    x = torch.arange(4.0)
    with Reads() as reads, ReadingOps() as ops:
        x.tolist()
        bool(x[0] > 0)
        x[x > 1]
    assert "tolist" in reads.seen and "__bool__" in reads.seen
    assert ops.seen.count("index") == 1 and "_local_scalar_dense" in ops.seen


def test_a_tick_reads_nothing_back(device_ops: None) -> None:
    bench = Bench(Toybox.random(1))
    streams = [bench.stream(f"s{i}", seed=i, steps=2) for i in range(4)]
    fresh = bench.stream("fresh", "another prompt")
    bench.finish(streams[0], steps=1)
    with Reads() as reads, ReadingOps() as ops:
        executor = bench.executor
        executor.prefill([fresh])
        executor.start_chunks(streams, [2, 2, 1, 2])
        executor.run(streams, [])
        done, ended = streams[2].state, streams[3].state
        assert done is not None and ended is not None
        streams[2].uncommitted, streams[2].state = deque([done]), None
        streams[3].uncommitted, streams[3].state = deque([executor.end_chunk(ended)]), None
        outcome = executor.run(streams[:2], streams[2:])
        assert len(outcome.stepped) == len(outcome.committed) == 2 and not outcome.failed
    assert reads.seen == [] and ops.seen == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_tick_waits_for_nothing_on_a_gpu() -> None:
    from onbeat.models.registry import load_model

    model = load_model("toybox", device="cuda")
    assert isinstance(model, Toybox)
    bench = Bench(model)
    bench.store = KVStore(model.spec, 200, device="cuda")
    bench.executor = CudaExecutor(model, bench.store, max_rows=4, split_rows=4)
    bench.executor.start()
    streams = [bench.stream(f"s{i}", seed=i, steps=2) for i in range(4)]
    bench.executor.start_chunks(streams, [2] * 4)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        outcome = bench.executor.launch(streams, [])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(outcome().stepped) == 4
