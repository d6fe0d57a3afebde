"""How much of the best possible a run got: the on-time frames that no scheduler could exceed.

The linear programme of engine/simulate/bound.py over the chunks of all sessions that were offered,
refused ones too, each with the clock that its viewer saw, on a device as quick as the server's own
was: medians of its forwards by rows. It takes every chunk at its full steps; a server that takes
steps away under load can come above it.
"""

from collections.abc import Iterator

from onbeat.server.engine.simulate.bound import Window, most_chunks
from onbeat.server.engine.simulate.curves import Curve
from onbeat.server.engine.simulate.workload import Session, StreamClass
from onbeat.server.load.run import Outcome
from onbeat.server.load.seen import Seen

AHEAD = StreamClass().ahead
"""Chunk lengths before its playout at which a chunk may be begun."""


def bound_fps(outcome: Outcome) -> float | None:
    """Frames a second; None if the server did not tell what its forwards took."""
    if not outcome.row_seconds:
        return None
    windows = list(windows_of(outcome))
    most = most_chunks(windows, Curve(seconds=outcome.row_seconds), max(1, len(outcome.sessions)))
    return float(most * outcome.model["chunk_frames"] / (outcome.end - outcome.start))


def windows_of(outcome: Outcome) -> Iterator[Window]:
    """Chunks that were due in the measured part."""
    for session, seen in zip(outcome.sessions, outcome.seen, strict=True):
        yield from _windows(outcome, session, seen)


def _windows(outcome: Outcome, session: Session, seen: Seen) -> Iterator[Window]:
    length = outcome.model["chunk_frames"] / outcome.model["fps"]
    steps = outcome.load.steps or outcome.model["default_steps"]
    first = seen.frames[0].at - seen.frames[0].media if seen.frames else seen.asked + AHEAD * length
    left = seen.ended if seen.frames and seen.ended else seen.asked + session.seconds
    chunk = 0
    while (due := first + chunk * length) < min(outcome.end, left):
        release = seen.asked if chunk == 0 else due - AHEAD * length
        if due >= outcome.start and due > release:
            yield Window(stream=session.name, release=release, due=due, steps=steps)
        chunk += 1
