"""Random cases for edf-s with admission: are the promises kept whatever device and sessions there
are?

Either curve, scaled to 2 to 30 streams, 1 to 4 steps, one to three chunk lengths, up to 1.6 times
the capacity, up to 5 % noise, with and without a decode lane that takes time, equal sessions or
three classes. What it is not: a comparison of policies (compare.py).
"""

from dataclasses import dataclass
from random import Random

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.simulate.cases import MAX_ROWS
from onbeat.server.engine.simulate.curves import Curve, curve
from onbeat.server.engine.simulate.run import simulate, simulated_settings
from onbeat.server.engine.simulate.workload import Session, StreamClass, together
from onbeat.server.engine.simulate.world import Machine, simulated_spec

CHUNKS = 24
KEPT = 0.95
"""One miss of 24 chunks is within a promise of 29 of 30."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomCase:
    sessions: tuple[Session, ...]
    machine: Machine
    settings: EngineSettings
    spec: ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """`worst`: share of chunks on time of the worst admitted stream."""

    seed: int
    offered: int
    admitted: int
    worst: float

    @property
    def kept(self) -> bool:
        return self.worst >= KEPT


def random_case(seed: int) -> RandomCase:
    """The same for the same seed."""
    rng = Random(seed)
    device, steps, ahead = rng.choice("AB"), rng.choice((1, 2, 3, 4)), rng.choice((1, 2, 3))
    frames, fps = rng.choice(((12, 16), (4, 20), (9, 24), (16, 16)))
    spec = simulated_spec(chunk_frames=frames, fps=fps, steps=steps)
    share = curve(device, 1.0).best_row_seconds(MAX_ROWS) * (steps + 1) / spec.chunk_seconds
    capacity = rng.choice((2, 5, 12, 30)) * rng.uniform(1.0, 1.2)
    row = min(1.0 / (share * capacity), 0.9 * ahead * spec.chunk_seconds / steps)
    offered = max(1, int(rng.choice((0.7, 1.0, 1.25, 1.6)) * capacity))
    kinds: tuple[StreamClass, ...] = (StreamClass(steps=steps, ahead=ahead),)
    if rng.random() < 0.4:
        kinds += (
            StreamClass(name="fewer", share=0.7, steps=max(1, steps - 1), ahead=ahead),
            StreamClass(name="single", share=0.5, steps=1, ahead=1),
        )
    within = rng.choice((1.0, 4.0, 12.0)) * spec.chunk_seconds
    noise = rng.choice((0.0, 0.02, 0.05))
    return RandomCase(
        sessions=tuple(
            together(offered, CHUNKS * spec.chunk_seconds, within=within, classes=kinds, seed=seed)
        ),
        machine=Machine(
            compute=curve(device, row),
            decode=Curve(seconds={1: rng.choice((0.0, 0.02)) * spec.chunk_seconds}),
            noise=noise,
        ),
        settings=simulated_settings(
            anytime=rng.random() < 0.3, headroom=0.9 if noise > 0.02 else 1.0, max_rows=MAX_ROWS
        ),
        spec=spec,
    )


def promises(seed: int) -> Kept:
    """Runs the case of one seed."""
    case = random_case(seed)
    result = simulate(
        case.sessions, case.machine, settings=case.settings, spec=case.spec, seed=seed
    )
    return Kept(
        seed=seed,
        offered=len(result.streams),
        admitted=len(result.admitted),
        worst=min((s.ratio for s in result.admitted), default=1.0),
    )
