"""Where a chunk's time went: the stages sum to its time, and a slow part is that part's."""

from collections.abc import Callable, Sequence

import pytest

from onbeat.server.engine.device import Outcome
from onbeat.server.engine.messages import ChunkReady, Event, OpenStream
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.simulate.curves import Curve
from onbeat.server.engine.simulate.run import simulated_settings
from onbeat.server.engine.simulate.world import Machine, World, simulated_spec
from onbeat.server.engine.streams import Stream
from tests.server.engine.drive import Rig, affine

STAGES = ("queue", "denoise", "commit", "decode", "convert")


@pytest.mark.parametrize("streams", [1, 6])
@pytest.mark.parametrize("cost", [affine(0.004, 0.002), affine(0.01, 0.012)])
def test_the_stages_of_a_chunk_sum_to_its_time(streams: int, cost: Callable[[int], float]) -> None:
    rig = Rig(EngineSettings(decode_lane=False, admission=False), step_cost=cost)
    for n in range(streams):
        rig.open(f"s{n}", seed=n)
        rig.run(0.03)
    rig.open("job", kind="job", total_chunks=4)
    rig.run(3.0)
    assert len(rig.ready()) > 10
    for event in rig.ready():
        parts = [getattr(event.stages, name) for name in STAGES]
        assert min(parts) >= 0, event
        assert sum(parts) == pytest.approx(event.ready_at - event.stages.released_at, abs=2e-3)
    rig.check()


def test_commits_that_hold_a_chunk_up_are_its_commit_time() -> None:
    """A lone stream commits before its next chunk is released; a busy engine after that."""
    alone, busy = (_commits(streams) for streams in (1, 14))
    assert not any(alone) and any(busy)


def _commits(streams: int) -> list[float]:
    rig = Rig(EngineSettings(decode_lane=False, admission=False), step_cost=affine(0.02, 0.004))
    for n in range(streams):
        rig.open(f"s{n}", seed=n)
    rig.run(3.0)
    rig.check()
    return [event.stages.commit for event in rig.ready()]


def test_waiting_for_others_is_the_queue() -> None:
    alone, shared = (_queue(streams) for streams in (1, 8))
    assert shared > 2 * alone


def _queue(streams: int) -> float:
    """Mean wait of the first stream's chunks."""
    rig = Rig(
        EngineSettings(decode_lane=False, admission=False, policy="fcfs-chunk"),
        step_cost=affine(0.006, 0.001),
    )
    for n in range(streams):
        rig.open(f"s{n}", seed=n)
    rig.run(3.0)
    waits = [event.stages.queue for event in rig.ready("s0")]
    return max(1e-3, sum(waits) / len(waits))


class Telling(World):
    """A decoder that works beside forwards; those of one kind take STALL longer."""

    kind, told = "", list[tuple[float, ChunkReady]]()

    def stall(self, kind: str) -> None:
        executor, self.kind, self.told = self.executors[-1], kind, []
        launched = executor.launch

        def launch(steps: Sequence[Stream], commits: Sequence[Stream]) -> Callable[[], Outcome]:
            if self.kind == ("steps" if steps else "commits"):
                self.clock.advance(STALL)
            return launched(steps, commits)

        executor.launch = launch  # type: ignore[method-assign]

    def _emit(self, event: Event) -> None:
        super()._emit(event)
        if isinstance(event, ChunkReady):
            self.told.append((self.clock.at, event))


STALL = 0.1


@pytest.mark.parametrize("kind", ["commits", "steps"])
def test_a_chunk_that_waits_to_be_told_of_waits_for_what_runs(kind: str) -> None:
    """It was decoded while a forward ran, and is told of after it."""
    machine = Machine(compute=Curve(seconds={1: 0.01}), decode=Curve(seconds={1: 0.005}))
    spec = simulated_spec(chunk_frames=8, fps=20, steps=2, window_chunks=6)
    world = Telling(machine, spec, simulated_settings(admission=False))
    for name in ("a", "b"):
        world.submit(OpenStream(stream_id=name, kind="live", prompt="red ball", seed=1))
        world.run(world.clock.at + 0.05)
    world.run(world.clock.at + 1.0)
    world.stall(kind)
    world.run(world.clock.at + 6.0)
    world.close()
    stages = [event.stages for _, event in world.told]
    assert len(stages) > 10
    for at, event in world.told:
        assert event.stages.told_at == pytest.approx(at, abs=2e-3)
        assert min(getattr(event.stages, name) for name in STAGES) >= 0
    held = sum(each.commit > 0.9 * STALL - 0.005 for each in stages)
    assert held >= len(stages) / 3 if kind == "commits" else not held
