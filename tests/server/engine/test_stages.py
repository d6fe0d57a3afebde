"""Where a chunk's time went: the stages sum to its time, and a slow part is that part's."""

from collections.abc import Callable

import pytest

from onbeat.server.engine.settings import EngineSettings
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
