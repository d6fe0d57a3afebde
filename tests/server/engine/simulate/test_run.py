"""Whole simulations: the same twice, each chunk counted once, nothing left behind, faults."""

from collections import Counter

import pytest

from onbeat.server.engine.messages import ChunkDropped, ChunkReady, OpenStream
from onbeat.server.engine.settings import POLICIES
from onbeat.server.engine.simulate.curves import Curve, curve
from onbeat.server.engine.simulate.faults import Fault
from onbeat.server.engine.simulate.run import simulate, simulated_settings
from onbeat.server.engine.simulate.tally import Result
from onbeat.server.engine.simulate.workload import Session, StreamClass, together
from onbeat.server.engine.simulate.world import Machine, World, simulated_spec

SUBLINEAR = Machine(compute=curve("A", 0.030), noise=0.02)
LIVE = StreamClass()


def run(count: int, machine: Machine = SUBLINEAR, seconds: float = 9.0, **more: object) -> Result:
    sessions = together(count, seconds, within=1.5)
    return simulate(sessions, machine, settings=simulated_settings(**more))


def test_a_light_load_is_on_time() -> None:
    result = run(4, anytime=False)
    assert result.on_time_ratio == 1.0 and result.clean == 4
    assert result.mean_steps == 4.0 and result.full == 4 * 12
    assert all(s.ended == "finished" for s in result.streams)


def test_the_same_twice() -> None:
    first, second = run(18, admission=False), run(18, admission=False)
    assert first.streams == second.streams and first.batches == second.batches


@pytest.mark.parametrize("policy", POLICIES)
def test_each_chunk_is_delivered_or_counted_once(policy: str) -> None:
    spec = simulated_spec()
    world = World(SUBLINEAR, spec, simulated_settings(policy=policy, admission=False), 0)
    for i in range(20):
        opened = OpenStream(
            stream_id=f"s{i}", kind="live", prompt="p", seed=0, steps=4, total_chunks=10
        )
        world.at(0.1 * i, opened)
    world.run(40.0)
    seen: Counter[tuple[str, int]] = Counter()
    for event in world.events:
        if isinstance(event, ChunkReady | ChunkDropped):
            seen[event.stream_id, event.chunk] += 1
    assert seen == Counter({(f"s{i}", k): 1 for i in range(20) for k in range(10)})
    world.close()


def test_admission_keeps_what_it_promises() -> None:
    result = run(24)
    assert 0 < len(result.admitted) < 24
    assert all("busy" in s.reason for s in result.streams if not s.admitted)


def test_a_slow_decode_lane_is_waited_for() -> None:
    machine = Machine(compute=Curve(seconds={1: 0.01, 16: 0.1}), decode=Curve(seconds={1: 0.2}))
    assert run(3, machine).on_time_ratio == 1.0
    assert run(8, machine, admission=False).on_time_ratio < 0.7


def test_a_slow_forward_costs_no_more_than_itself() -> None:
    machine = Machine(compute=curve("A", 0.030), faults=(Fault(at=4.0, kind="slow", seconds=0.3),))
    assert run(8, machine).clean == 8


@pytest.mark.parametrize("kind", ["decode", "nan", "raise"])
def test_a_failure_ends_one_stream(kind: str) -> None:
    fault = Fault(at=4.0, kind=kind)  # type: ignore[arg-type]
    result = run(5, Machine(compute=curve("A", 0.030), faults=(fault,)))
    assert Counter(s.ended for s in result.streams) == {"finished": 4, "failed": 1}


def test_streams_go_on_after_a_restart() -> None:
    fault = Fault(at=4.0, kind="restart", seconds=1.0)
    result = run(5, Machine(compute=curve("A", 0.030), faults=(fault,)), seconds=15.0)
    assert result.restarts == 1
    assert all(s.ended == "finished" and s.ratio > 0.75 for s in result.streams)


def test_a_jump_of_the_clock_is_survived() -> None:
    fault = Fault(at=4.0, kind="jump", seconds=5.0)
    result = run(5, Machine(compute=curve("A", 0.030), faults=(fault,)), seconds=15.0)
    assert all(0.4 < s.ratio < 0.8 for s in result.streams)


def test_jobs_take_what_live_streams_leave() -> None:
    live = together(4, 9.0, within=1.0)
    job = Session(name="job", start=0.0, seconds=9.0, kind=StreamClass(name="job", kind="job"))
    result = simulate([*live, job], SUBLINEAR, settings=simulated_settings(anytime=False))
    assert result.clean == 5 and result.streams[-1].on_time == 12
