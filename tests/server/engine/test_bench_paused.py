"""200 sessions, 16 of them active and swapped all the while, on a clock of their own: every resume
within two chunks, frames on time, copies hidden, no page, buffer or slot left behind."""

import pytest

from onbeat.server.engine.bench_paused import Swaps, Tally
from onbeat.server.engine.settings import EngineSettings
from tests.server.engine.drive import Rig, affine
from tests.server.engine.fake import SPEC

PROMPTS = [f"prompt {i}" for i in range(30)]


def swapped(host_memory: int, *, seconds: float = 8.0) -> tuple[Rig, Swaps]:
    settings = EngineSettings(
        decode_lane=False,
        admission=False,
        max_streams=200,
        max_active=24,
        max_jobs=0,
        host_memory=host_memory,
    )
    rig = Rig(settings, step_cost=affine(0.010, 0.0025), copy_seconds=0.0015)
    seen = 0
    swaps = Swaps(rig.engine.submit, sessions=40, active=16, prompts=PROMPTS)
    swaps.open()
    for i in range(160):
        rig.open(f"idle_{i}", paused=True)
    end = rig.clock.now() + seconds
    while rig.clock.now() < end:
        swaps.swap(rig.clock.now())
        rig.run(0.05)
        for event in rig.events[seen:]:
            swaps.see(event)
        seen = len(rig.events)
        rig.engine.check_integrity()
    return rig, swaps


@pytest.mark.parametrize("host_memory", [1 << 20, 40_000, 0])
def test_every_resume_is_within_two_chunks_and_nothing_is_late(host_memory: int) -> None:
    rig, swaps = swapped(host_memory)
    tally = swaps.tally
    assert not tally.failures and not tally.dropped and tally.late == 0
    assert len(tally.latencies) > 100 and len(rig.engine.roster.streams) == 200
    assert max(tally.latencies) <= 2 * SPEC.chunk_seconds
    copied, residency = rig.engine.residency.copied, rig.engine.residency
    assert copied.restores > 20 if host_memory > 1 << 16 else copied.dropped > 20
    assert copied.exposed <= 0.1 * copied.seconds
    assert residency.host_bytes <= host_memory
    assert len(rig.copier.buffers) == residency.buffers.made
    assert rig.engine.pool.used <= 24 * (SPEC.window_chunks + 2)
    rig.check()
    assert residency.buffers.used == 0


def test_a_tally_counts_what_was_missed() -> None:
    tally = Tally(on_time=6, late=1)
    tally.dropped["queue"] = 1
    assert tally.on_time_ratio == 0.75
