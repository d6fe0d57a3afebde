"""Random tiny cases on which the bound, the true optimum and edf-s can all be known.

What it is not: a benchmark of policies; the cases are too short for that. It says how loose the
linear programme is.
"""

from dataclasses import dataclass
from random import Random

from onbeat.server.engine.simulate.bound import most_chunks
from onbeat.server.engine.simulate.cases import MAX_ROWS
from onbeat.server.engine.simulate.curves import Curve
from onbeat.server.engine.simulate.exact import best_chunks
from onbeat.server.engine.simulate.run import simulate, simulated_settings
from onbeat.server.engine.simulate.windows import run_windows
from onbeat.server.engine.simulate.workload import StreamClass, together
from onbeat.server.engine.simulate.world import Machine, simulated_spec

CHUNKS = 4
ROW_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiny:
    """`pair`: a forward of two rows against one row; chunks on time of `due` ones."""

    streams: int
    steps: int
    ahead: int
    period: float
    pair: float
    due: int
    bound: float
    best: int
    edf_s: int


def tiny_cases(count: int, seed: int = 0) -> list[Tiny]:
    """Cases in which not everything fits; the same for the same seed."""
    rng, found = Random(seed), list[Tiny]()
    while len(found) < count:
        case = _draw(rng)
        if case.best < case.due:
            found.append(case)
    return found


def _draw(rng: Random) -> Tiny:
    streams, steps, ahead = rng.choice((2, 3)), rng.choice((1, 2, 3)), rng.choice((1, 2))
    pair, fps = rng.choice((1.2, 1.6, 2.0)), rng.choice((2, 3, 4, 5))
    device = Curve(seconds={1: ROW_SECONDS, 2: pair * ROW_SECONDS, 4: 2 * pair * ROW_SECONDS})
    spec = simulated_spec(steps=steps, chunk_frames=1, fps=fps)
    settings = simulated_settings(admission=False, anytime=False, max_rows=MAX_ROWS)
    sessions = together(
        streams,
        CHUNKS / fps,
        within=2.0 / fps,
        classes=[StreamClass(steps=steps, ahead=ahead)],
        seed=rng.randrange(1 << 30),
    )
    result = simulate(sessions, Machine(compute=device), settings=settings, spec=spec)
    windows = run_windows(result, spec, settings, device)
    return Tiny(
        streams=streams,
        steps=steps,
        ahead=ahead,
        period=spec.chunk_seconds,
        pair=pair,
        due=len(windows),
        bound=most_chunks(windows, device, MAX_ROWS),
        best=best_chunks(windows, device, MAX_ROWS),
        edf_s=result.full,
    )
