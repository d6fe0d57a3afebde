"""Small random machines and settings on which a few streams are already too many, or none are.

Hypothesis strategies. What it is not: what happens on them (test_machine.py).
"""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from onbeat.server.engine.settings import POLICIES, EngineSettings
from onbeat.server.engine.simulate.curves import Curve, curve
from onbeat.server.engine.simulate.run import simulated_settings
from onbeat.server.engine.simulate.transfers import NoCopier
from onbeat.server.engine.simulate.world import Machine, simulated_spec

SPEC = replace(
    simulated_spec(chunk_frames=4, fps=20, steps=2, window_chunks=3),
    first_chunk_steps=4,
    max_steps=4,
    kept_chunks=1,
    takes_reference=True,
)
"""Chunks of 0.2 s in 2 steps; 15 forwards a second for one stream."""
PAGE_BYTES = NoCopier().layers * NoCopier().page_bytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Few and plain values, so that a failure can be read. Seconds; `streams`: pages for so many,
    0 for all that may be open; `buffers`: host buffers."""

    curve: str = "A"
    row: float = 0.004
    decode: float = 0.0
    noise: float = 0.0
    slots: int = 64
    policy: str = "edf-s"
    admission: bool = False
    anytime: bool = True
    rows: int = 16
    live: int = 8
    jobs: int = 3
    streams: int = 0
    buffers: int = 1024
    rest: float = 0.0
    firm: tuple[int, int] = (29, 30)
    stats: float = 1.0
    plan_ahead: str = "off"

    @property
    def machine(self) -> Machine:
        return Machine(
            compute=curve(self.curve, self.row),
            decode=Curve(seconds={1: self.decode}),
            noise=self.noise,
            slots=self.slots,
        )

    @property
    def settings(self) -> EngineSettings:
        return simulated_settings(
            policy=self.policy,
            admission=self.admission,
            anytime=self.anytime,
            max_rows=self.rows,
            max_streams=self.live,
            max_jobs=self.jobs,
            pages=self.streams * (SPEC.window_chunks + 2),
            host_memory=self.buffers * SPEC.window_chunks * PAGE_BYTES,
            offload_after_seconds=self.rest,
            firm_m=self.firm[0],
            firm_k=self.firm[1],
            stats_seconds=self.stats,
            plan_ahead=self.plan_ahead,
        )


def setups() -> st.SearchStrategy[Setup]:
    """From 1 to 17 streams' worth of compute; decoders from free to too slow; few slots, pages and
    host buffers, or enough. The first of each is the simplest."""
    return st.builds(
        Setup,
        curve=st.sampled_from("AB"),
        row=st.sampled_from([0.004, 0.012, 0.03, 0.06]),
        decode=st.sampled_from([0.0, 0.005, 0.06]),
        noise=st.sampled_from([0.0, 0.1]),
        slots=st.sampled_from([64, 8, 3]),
        policy=st.sampled_from(["edf-s"] * len(POLICIES) + list(POLICIES)),
        admission=st.booleans(),
        anytime=st.sampled_from([True, False]),
        rows=st.sampled_from([16, 3, 1]),
        live=st.sampled_from([8, 3]),
        jobs=st.sampled_from([3, 1]),
        streams=st.sampled_from([0, 4, 2]),
        buffers=st.sampled_from([1024, 2, 0]),
        rest=st.sampled_from([0.0, 0.5]),
        firm=st.sampled_from([(29, 30), (4, 5), (0, 1), (3, 3)]),
        stats=st.sampled_from([1.0, 0.05]),
        plan_ahead=st.sampled_from(["off", "on"]),
    )
