"""When the chunks of a simulation could be made: the input of the bound, from a run or before it.

Windows of a run use the clocks that the engine gave its streams, so that a bound holds for that
very run; streams that were refused get the clock that an idle engine would have given them. What it
is not: the bound (bound.py).
"""

import math
from collections.abc import Sequence

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.simulate.bound import Window
from onbeat.server.engine.simulate.curves import Curve
from onbeat.server.engine.simulate.tally import Result, chunks_of
from onbeat.server.engine.simulate.workload import Session


def run_windows(
    result: Result, spec: ModelSpec, settings: EngineSettings, device: Curve
) -> list[Window]:
    """Of every live session of a run, admitted or not."""
    return [
        window
        for tally in result.streams
        for window in _windows(
            tally.session, spec, tally.first_due or _idle_due(tally.session, spec, settings, device)
        )
    ]


def idle_windows(
    sessions: Sequence[Session], spec: ModelSpec, settings: EngineSettings, device: Curve
) -> list[Window]:
    """As an engine would give them that each session has for itself."""
    return [
        window
        for session in sessions
        for window in _windows(session, spec, _idle_due(session, spec, settings, device))
    ]


def _idle_due(session: Session, spec: ModelSpec, settings: EngineSettings, device: Curve) -> float:
    ready = session.start + session.kind.steps * device.at(1)
    grid = spec.chunk_seconds
    buffer = settings.playout_buffer_chunks * spec.chunk_seconds
    return math.ceil((ready + buffer) / grid) * grid


def _windows(session: Session, spec: ModelSpec, first_due: float) -> list[Window]:
    """The first chunk may be made as soon as the session is there; it starts the clock."""
    if session.kind.kind != "live":
        return []
    dues = [first_due + k * spec.chunk_seconds for k in range(chunks_of(session, spec))]
    ahead = session.kind.ahead * spec.chunk_seconds
    return [
        Window(
            stream=session.name,
            release=session.start if k == 0 else due - ahead,
            due=due,
            steps=session.kind.steps,
        )
        for k, due in enumerate(dues)
    ]
