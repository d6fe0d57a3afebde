"""A lane of its own changes when forwards run, never what comes of them."""

import threading
from functools import partial

import pytest
import torch

from onbeat.models.toybox.model import Toybox
from onbeat.server.engine.assemble import resolved
from onbeat.server.engine.executor import TorchExecutor
from onbeat.server.engine.lanes import InlineLane, Lane, Pair, ThreadLane, halfway
from onbeat.server.engine.settings import EngineSettings
from tests.server.engine.fake import FakeModel
from tests.server.engine.test_executor import Bench, same


def failing() -> int:
    raise RuntimeError("broken")


@pytest.mark.parametrize("lane", [InlineLane(), ThreadLane(1)])
def test_calls_run_in_order_and_raise_where_they_are_waited_for(lane: Lane) -> None:
    done: list[int] = []
    waits = [lane.launch(partial(done.append, i)) for i in range(5)]
    broken = lane.launch(failing)
    for wait in waits:
        wait()
    assert done == list(range(5))
    with pytest.raises(RuntimeError, match="broken"):
        broken()
    lane.close()
    lane.close()


def test_a_pair_waits_for_both_calls_and_raises_what_one_raises() -> None:
    pair, done = Pair(2), threading.Event()
    assert pair.run(lambda: 1, lambda: 2) == (1, 2)
    with pytest.raises(RuntimeError, match="broken"):
        pair.run(failing, lambda: int(done.wait(0.01)))
    with pytest.raises(RuntimeError, match="broken"):
        pair.run(lambda: 1, failing)
    pair.close()


@pytest.mark.parametrize(
    ("rows", "pieces", "cut"),
    [
        (8, [], 4),
        (9, [1, 1], 4),
        (8, [4], 4),
        (8, [5], 3),
        (8, [6], 2),
        (8, [7, 1], 7),
        (4, [4], 0),
    ],
)
def test_the_cut_is_in_the_middle_or_at_the_end_of_a_piece(
    rows: int, pieces: list[int], cut: int
) -> None:
    assert halfway(rows, pieces) == cut


def test_halves_have_the_bits_of_the_whole() -> None:
    model, threads = Toybox.random(3), torch.get_num_threads()
    whole, split = Bench(model), Bench(model)
    split.executor = TorchExecutor(model, split.store, 2, split_rows=2)
    ours = [whole.stream(f"s{i}", seed=i) for i in range(5)]
    theirs = [split.stream(f"s{i}", seed=i) for i in range(5)]
    for rows in (5, 2, 3):
        for bench, streams in ((whole, ours), (split, theirs)):
            bench.executor.start_chunks(streams[:rows], [2] * rows)
            for _ in range(2):
                assert len(bench.executor.run(streams[:rows], []).stepped) == rows
        for a, b in zip(ours[:rows], theirs[:rows], strict=True):
            assert same(whole.commit(a), split.commit(b))
    assert torch.equal(whole.store.k, split.store.k)
    split.executor.close()
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("asked", "threads", "device", "rows"),
    [(0, 1, "cpu", 25), (0, 2, "cpu", 8), (0, 2, "cuda", 25), (5, 2, "cpu", 5), (5, 1, "cuda", 5)],
)
def test_halves_are_resolved_by_device_and_threads(
    asked: int, threads: int, device: str, rows: int
) -> None:
    settings = EngineSettings(split_rows=asked, compute_threads=threads)
    assert resolved(settings, device).split_rows == rows


@pytest.mark.parametrize(
    ("asked", "device", "found"),
    [("auto", "cpu", "off"), ("auto", "cuda", "on"), ("on", "cpu", "on"), ("off", "cuda:1", "off")],
)
def test_plan_ahead_is_resolved_by_device_and_logged(
    asked: str, device: str, found: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert resolved(EngineSettings(plan_ahead=asked), device).plan_ahead == found
    assert f"plan_ahead {found} (asked: {asked})" in caplog.text


def test_a_thread_runs_before_it_is_waited_for() -> None:
    lane, ran = ThreadLane(1), threading.Event()
    wait = lane.launch(ran.set)
    assert ran.wait(10.0)
    wait()
    lane.close()


def test_an_executor_on_a_thread_gives_the_same_bits() -> None:
    inline, beside = Bench(FakeModel()), Bench(FakeModel())
    beside.executor = TorchExecutor(beside.model, beside.store, 1, ThreadLane(1))
    a, b = inline.stream("a"), beside.stream("a")
    for _ in range(3):
        assert same(inline.finish(a), beside.finish(b))
    beside.executor.close()


def test_streams_stay_as_they_are_until_the_outcome() -> None:
    bench = Bench(FakeModel())
    bench.executor = TorchExecutor(bench.model, bench.store, 1, ThreadLane(1))
    good, bad = bench.stream("good"), bench.stream("bad", "raise")
    bench.executor.start_chunks([good, bad], [2, 2])
    before = good.state
    wait = bench.executor.launch([good, bad], [])
    assert good.state is before
    outcome = wait()
    assert outcome.stepped == [good] and [s.id for s, _ in outcome.failed] == ["bad"]
    assert good.state is not None and good.state.step == 1
    bench.executor.close()
