"""A dry run of the CUDA executor: streams, events and graphs are stand-ins, the rest is real."""

from typing import Any

import pytest
import torch

from onbeat.models.toybox.model import Toybox
from onbeat.server.engine.cuda import CudaCopier, CudaExecutor
from onbeat.server.engine.graphs import Work
from onbeat.server.engine.kv_store import KVStore
from tests.server.engine.test_executor import Bench, same


class Stand:
    """A stream, an event or the context of one: notes what is called."""

    calls: list[str] = []

    def __init__(self, *_: Any, **__: Any) -> None:
        """Any arguments will do."""

    def __enter__(self) -> "Stand":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to leave."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: Stand.calls.append(name)


@pytest.fixture(autouse=True)
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(self: CudaExecutor, work: Work) -> Work:
        work()
        return work

    Stand.calls.clear()
    for name in ("Stream", "Event", "stream", "set_stream", "current_stream", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, Stand)
    monkeypatch.setattr(CudaExecutor, "_recorded", again)


@pytest.mark.parametrize("split_rows", [0, 2])
def test_the_same_bits_as_the_executor_of_the_cpu(split_rows: int) -> None:
    model = Toybox.random(3)
    plain, graphed = Bench(model), Bench(model)
    graphed.executor = CudaExecutor(model, graphed.store, max_rows=4, split_rows=split_rows)
    graphed.executor.start()
    ours = [plain.stream(f"s{i}", seed=i, steps=2) for i in range(5)]
    theirs = [graphed.stream(f"s{i}", seed=i, steps=2) for i in range(5)]
    for rows in (3, 1, 5):
        for bench, streams in ((plain, ours), (graphed, theirs)):
            bench.executor.start_chunks(streams[:rows], [2] * rows)
            for _ in range(2):
                assert len(bench.executor.run(streams[:rows], []).stepped) == rows
        for a, b in zip(ours[:rows], theirs[:rows], strict=True):
            assert same(plain.commit(a), graphed.commit(b))
    assert torch.equal(plain.store.k, graphed.store.k)


def test_a_launch_waits_for_its_event_and_no_more() -> None:
    model = Toybox.random(3)
    bench = Bench(model)
    bench.executor = CudaExecutor(model, bench.store, max_rows=2)
    bench.executor.start()
    stream = bench.stream("a")
    bench.executor.start_chunks([stream], [2])
    Stand.calls.clear()
    wait = bench.executor.launch([stream], [])
    assert Stand.calls == ["record"]
    wait()
    assert Stand.calls == ["record", "synchronize"]


def test_pages_go_out_and_come_back() -> None:
    store = KVStore(Toybox.random(3).spec, 6)
    store.k.normal_()
    store.v.normal_()
    before = store.k.clone(), store.v.clone()
    copier = CudaCopier(store, 3)
    for layer in range(copier.layers):
        copier.copy_out(layer, (4, 1), 0)
    store.k.zero_(), store.v.zero_()
    for layer in range(copier.layers):
        copier.copy_in(layer, (1, 4), 0)
    for pool, old in zip((store.k, store.v), before, strict=True):
        assert torch.equal(pool[:, 1], old[:, 4]) and torch.equal(pool[:, 4], old[:, 1])
