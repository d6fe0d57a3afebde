"""`simulate(...)`: sessions on a simulated machine under an engine's settings, and what came of it.

    sessions = together(20, 60.0, within=1.5)
    machine = Machine(compute=curve("A", 0.030), noise=0.02)
    result = simulate(sessions, machine, settings=simulated_settings(policy="edf-s"))

Deterministic: the same arguments give the same result. What it is not: the loop (world.py).
"""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.messages import ChunkDropped, CloseStream, OpenStream
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.simulate.tally import Result, chunks_of, count
from onbeat.server.engine.simulate.workload import Session
from onbeat.server.engine.simulate.world import Machine, World, busy, simulated_spec

GRACE_CHUNKS = 3
"""A session that is not over so many chunks after it should be is closed by its viewer."""


def simulated_settings(**more: Any) -> EngineSettings:
    """Settings of an engine that knows its device exactly: all of it may be promised, nothing is
    kept for encoding and sending. `more`: any other setting."""
    values: dict[str, Any] = {
        "headroom": 1.0,
        "delivery_seconds": 0.0,
        "max_streams": 512,
        "stats_seconds": 5.0,
    }
    return EngineSettings(**{**values, **more})


def simulate(
    sessions: Sequence[Session],
    machine: Machine,
    *,
    settings: EngineSettings,
    spec: ModelSpec | None = None,
    seed: int = 0,
) -> Result:
    """Runs all sessions to their end. `seed` is that of the noise; `spec` defaults to chunks of
    0.75 s in 4 steps. Asserts that pages and slots are all back in the end."""
    began = time.perf_counter()
    spec = spec or simulated_spec()
    world = World(machine, spec, settings, seed)
    for session in sessions:
        _plan(world, session)
    arrived = max((s.start for s in sessions), default=0.0)
    end = max((_closing(s, spec) for s in sessions), default=0.0) + spec.chunk_seconds
    world.run(end, lambda: not world.engine.roster.streams and world.clock.now() > arrived)
    seconds = world.clock.now()
    world.close()
    drops = Counter(str(e.cause) for e in world.events if isinstance(e, ChunkDropped))
    return Result(
        streams=tuple(count(sessions, world.events, spec)),
        period=spec.chunk_seconds,
        seconds=seconds,
        real_seconds=time.perf_counter() - began,
        ticks=world.ticks,
        batches=tuple(rows for e in world.executors for rows in e.batches),
        busy=busy(world.executors),
        restarts=world.restarts,
        drops=dict(drops),
    )


def _plan(world: World, session: Session) -> None:
    chunks = chunks_of(session, world.spec)
    opening = OpenStream(
        stream_id=session.name,
        kind=session.kind.kind,
        prompt=session.prompt,
        seed=0,
        steps=session.kind.steps,
        total_chunks=chunks,
        ahead_chunks=session.kind.ahead,
    )
    world.at(session.start, opening)
    world.at(_closing(session, world.spec), CloseStream(stream_id=session.name))


def _closing(session: Session, spec: ModelSpec) -> float:
    chunks = chunks_of(session, spec) + session.kind.ahead + GRACE_CHUNKS
    return session.start + chunks * spec.chunk_seconds
