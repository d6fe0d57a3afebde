"""A lane of its own changes when forwards run, never what comes of them."""

import threading
from functools import partial

import pytest

from onbeat.server.engine.assemble import resolved
from onbeat.server.engine.executor import TorchExecutor
from onbeat.server.engine.lanes import InlineLane, Lane, ThreadLane
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
