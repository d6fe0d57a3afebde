"""What the engine promises, on the simulator: the real loop, policy and admission on a virtual
clock. The same figures on the real engine: benchmarks/engine/anytime.py, interference.py."""

from dataclasses import dataclass

import pytest

from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    CloseStream,
    ControlStream,
    OpenStream,
    StreamOpened,
)
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.simulate.curves import Curve, curve
from onbeat.server.engine.simulate.run import simulate, simulated_settings
from onbeat.server.engine.simulate.workload import StreamClass, together
from onbeat.server.engine.simulate.world import Machine, World, simulated_spec

TWO_CORES = Machine(
    compute=Curve(
        seconds={
            1: 0.011,
            2: 0.013,
            3: 0.016,
            4: 0.019,
            6: 0.026,
            8: 0.028,
            12: 0.040,
            16: 0.049,
        }
    ),
    decode=Curve(seconds={1: 0.007, 2: 0.0135, 4: 0.026}),
    noise=0.1,
)
"""The costs of toybox on two shared cores, as once measured."""
SMALL = simulated_spec(chunk_frames=4, fps=20, steps=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Chunks of streams whose names begin alike, due or ready in a stretch of time."""

    ready: list[ChunkReady]
    dropped: list[ChunkDropped]

    @property
    def on_time(self) -> float:
        return sum(e.on_time for e in self.ready) / (len(self.ready) + len(self.dropped))

    @property
    def steps(self) -> float:
        return sum(e.steps for e in self.ready) / len(self.ready)


def seen(world: World, name: str, start: float, end: float) -> Seen:
    ready, dropped = [], []
    for event in world.events:
        match event:
            case ChunkReady() if event.stream_id.startswith(name):
                if start <= (event.playout_at or event.ready_at) < end:
                    ready.append(event)
            case ChunkDropped() if event.stream_id.startswith(name):
                if start <= event.playout_at < end:
                    dropped.append(event)
    return Seen(ready=ready, dropped=dropped)


def world_with(streams: int, **settings: object) -> World:
    """A world in which so many live streams join in the first seconds."""
    world = World(TWO_CORES, SMALL, EngineSettings(**settings), seed=3)  # type: ignore[arg-type]
    for i in range(streams):
        command = OpenStream(stream_id=f"live {i}", kind="live", prompt="p", seed=i)
        world.at(0.037 * i, command)
    return world


def admitted() -> int:
    world = world_with(40)
    world.run(3.0)
    count = sum(isinstance(e, StreamOpened) for e in world.events)
    world.close()
    return count


def test_under_more_load_than_the_device_carries_steps_fall_and_time_is_kept() -> None:
    streams = round(1.75 * admitted())
    world = world_with(streams, admission=False)
    world.run(13.0)
    overload = seen(world, "live", 3.0, 13.0)
    assert overload.on_time >= 0.95
    assert 1.0 <= overload.steps < 1.95
    for i in range(streams // 3, streams):
        world.submit(CloseStream(stream_id=f"live {i}"))
    world.run(18.0)
    short = [e for e in seen(world, "live", 3.0, 18.0).ready if e.steps < 2]
    assert max(e.ready_at for e in short) - 13.0 <= 2.0
    assert seen(world, "live", 15.5, 18.0).on_time == 1.0
    world.close()


BUSY = Machine(
    compute=Curve(seconds={1: 0.0108, 2: 0.0140, 4: 0.021, 8: 0.033, 12: 0.0405, 16: 0.0495}),
    decode=Curve(seconds={1: 0.0085, 2: 0.0141, 4: 0.030}),
    noise=0.3,
)
"""Toybox on two cores while both lanes are full, and forwards that vary by a third."""


def test_near_the_bound_no_chunk_is_given_up_that_would_have_been_in_time() -> None:
    """22 streams of the 23 that these costs allow, all steps made: as good as the policy that gives
    up nothing. Deadlines of the slowest day for every chunk cost half of the streams."""
    sessions = together(22, 30.0, within=1.1, classes=[StreamClass(steps=2)])
    clean = {}
    for policy in ("edf-s", "coalesced"):
        settings = EngineSettings(policy=policy, admission=False, anytime=False)
        clean[policy] = simulate(sessions, BUSY, settings=settings, spec=SMALL).clean
    assert clean["edf-s"] == 22 >= clean["coalesced"]


@pytest.mark.parametrize("streams", [6, 12])
def test_endless_jobs_take_the_slack_and_nothing_else(streams: int) -> None:
    world = world_with(streams, admission=False)
    world.run(3.0)
    start, busy = world.clock.now(), world.executors[0].busy
    world.run(start + 8.0)
    idle = 8.0 - (world.executors[0].busy - busy)
    for i in range(8):
        job = OpenStream(stream_id=f"job {i}", kind="job", prompt="p", seed=i, total_chunks=9999)
        world.submit(job)
    world.run(start + 9.0)
    beside = world.clock.now()
    world.run(beside + 8.0)
    without = seen(world, "live", start, start + 8.0)
    along = seen(world, "live", beside, beside + 8.0)
    assert without.on_time - along.on_time <= 0.005 and along.steps == 2.0
    made = [
        e
        for e in world.events
        if isinstance(e, ChunkReady) and e.stream_id.startswith("job") and e.ready_at >= beside
    ]
    rows = sum(1 + e.steps for e in made)
    assert rows * TWO_CORES.compute.best_row_seconds(8) >= 0.8 * idle
    world.close()


def test_jobs_of_two_owners_get_equal_shares_whatever_they_queue() -> None:
    world = world_with(8, admission=False)
    for i in range(6):
        job = OpenStream(
            stream_id=f"job {i}",
            kind="job",
            prompt="p",
            seed=i,
            total_chunks=9999,
            owner="many" if i else "one",
        )
        world.submit(job)
    world.run(15.0)
    one = len(seen(world, "job 0", 5.0, 15.0).ready)
    many = [len(seen(world, f"job {i}", 5.0, 15.0).ready) for i in range(1, 6)]
    assert one >= 0.95 * max(many) and sum(many) > one, "a job takes one row at a time"
    world.close()


@pytest.mark.parametrize(
    ("name", "offered", "expected"), [("A", 16, 15), ("A", 24, 15), ("B", 5, 5), ("B", 8, 5)]
)
@pytest.mark.parametrize("ahead", [1, 2])
def test_every_admitted_stream_is_on_time_and_as_many_come_in_as_fit(
    name: str, offered: int, expected: int, ahead: int
) -> None:
    """Five forwards of 30 ms each 0.75 s: 5 streams fill a device on which batching gains nothing,
    16 one on which it does."""
    sessions = together(offered, 30.0, within=1.5, classes=[StreamClass(steps=4, ahead=ahead)])
    machine = Machine(compute=curve(name, 0.030), noise=0.02)
    result = simulate(sessions, machine, settings=simulated_settings(anytime=False))
    assert expected <= len(result.admitted) <= expected + (name == "A")
    assert result.clean == len(result.admitted)


def test_phases_are_shared_where_batching_pays_and_apart_where_it_does_not() -> None:
    phases = {}
    for name, count in (("A", 12), ("B", 4)):
        world = World(
            Machine(compute=curve(name, 0.030)), simulated_spec(), simulated_settings(), seed=0
        )
        for i in range(count):
            command = OpenStream(stream_id=f"s{i}", kind="live", prompt="p", seed=0)
            world.at(0.1 * i, command)
        world.run(5.0)
        streams = world.engine.roster.streams.values()
        phases[name] = {s.phase for s in streams}
        assert all(((s.anchor or 0.0) - s.phase) % 0.75 < 1e-6 for s in streams)
        world.close()
    assert len(phases["A"]) == 1 and len(phases["B"]) == 4


def test_a_viewer_with_one_stream_is_spared_by_a_heavy_one() -> None:
    """Without admission, at twice the load, full steps: the heavy owner's streams lose theirs."""
    machine = Machine(compute=curve("A", 0.030), noise=0.02)
    settings = simulated_settings(admission=False, anytime=False)
    world = World(machine, simulated_spec(), settings, seed=0)
    for i in range(24):
        command = OpenStream(
            stream_id=f"live {i:02}",
            kind="live",
            prompt="p",
            seed=0,
            owner="heavy" if i >= 4 else f"light {i}",
        )
        world.at(0.05 * i, command)
    world.run(40.0)
    light = [seen(world, f"live {i:02}", 6.0, 40.0).on_time for i in range(4)]
    heavy = [seen(world, f"live {i:02}", 6.0, 40.0).on_time for i in range(4, 24)]
    assert min(light) >= 0.85 and sum(light) / len(light) >= 0.9
    assert sum(heavy) / len(heavy) < 0.7
    assert max(heavy) - min(heavy) < 0.5, "drops are spread"
    world.close()


def test_pausing_gives_room_and_resuming_waits_for_it() -> None:
    world = World(
        Machine(compute=curve("B", 0.030)), simulated_spec(), simulated_settings(), seed=0
    )
    for i in range(6):
        command = OpenStream(stream_id=f"s{i}", kind="live", prompt="p", seed=0, wait=True)
        world.at(0.1 * i, command)
    world.run(4.0)
    roster = world.engine.roster
    assert len(roster.streams) == 5 and roster.gate.room.ids() == ["s5"]
    world.submit(ControlStream(stream_id="s0", revision=1, paused=True))
    world.run(8.0)
    assert "s5" in roster.streams and not roster.streams["s5"].paused
    world.submit(ControlStream(stream_id="s0", revision=2, paused=False))
    world.run(9.0)
    assert roster.gate.room.ids() == ["s0"]
    world.submit(CloseStream(stream_id="s1"))
    world.run(14.0)
    assert not roster.streams["s0"].paused
    assert seen(world, "s", 2.0, 14.0).on_time == 1.0
    world.close()
