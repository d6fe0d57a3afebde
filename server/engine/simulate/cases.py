"""The cases that policies are compared on: device curves, sessions, loads. Plain data.

Capacity is what the cheapest row allows: streams whose rows fill the time exactly. A load of 1.25
offers that times 1.25, rounded down.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.simulate.curves import Curve, curve
from onbeat.server.engine.simulate.workload import Session, StreamClass, together
from onbeat.server.engine.simulate.world import Machine, simulated_spec

MAX_ROWS = 16
NOISE = 0.02
JOIN_CHUNKS = 2.0
"""Sessions join at random instants of so many chunk lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`device`: the curve's name; `row_seconds`: of a forward of one row."""

    name: str
    device: str
    row_seconds: float
    classes: tuple[StreamClass, ...]

    @property
    def spec(self) -> ModelSpec:
        """Chunks of 0.75 s."""
        return simulated_spec(steps=max(c.steps for c in self.classes))

    @property
    def curve(self) -> Curve:
        return curve(self.device, self.row_seconds)

    @property
    def machine(self) -> Machine:
        return Machine(compute=self.curve, noise=NOISE)

    @property
    def capacity(self) -> float:
        """Streams whose steps and commits fill the device."""
        total = sum(c.share for c in self.classes)
        rows = sum(c.share * (c.steps + 1) for c in self.classes) / total
        return self.spec.chunk_seconds / (rows * self.curve.best_row_seconds(MAX_ROWS))

    def offered(self, load: float) -> int:
        return max(1, int(load * self.capacity + 1e-9))

    def sessions(self, load: float, seconds: float, seed: int) -> list[Session]:
        within = JOIN_CHUNKS * self.spec.chunk_seconds
        return together(self.offered(load), seconds, within=within, classes=self.classes, seed=seed)


LARGE = (StreamClass(name="large"),)
TIGHT = (StreamClass(name="tight", ahead=1),)
SMALL = (StreamClass(name="small", steps=1),)
MIXED = tuple(
    StreamClass(name=f"{steps}x{ahead}", share=share * part, steps=steps, ahead=ahead)
    for steps, share in ((4, 0.6), (2, 0.2), (1, 0.2))
    for ahead, part in ((1, 0.4), (2, 0.6))
)
SMALL_ROW: Mapping[str, float] = {"A": 0.015, "B": 0.0075}


def cases(device: str) -> tuple[Case, ...]:
    """large: 4 steps and a commit of 30 ms for one row. tight: the same with one chunk length from
    release to playout instead of two. small: one step and a commit of 15 (A) or 7.5 ms (B). mixed:
    60, 20, 20 % of sessions with 4, 2, 1 steps; 40 % of each have one chunk length, 60 % two."""
    rows = (("large", 0.030, LARGE), ("tight", 0.030, TIGHT), ("mixed", 0.030, MIXED))
    return (
        *(Case(name=n, device=device, row_seconds=t, classes=c) for n, t, c in rows),
        Case(name="small", device=device, row_seconds=SMALL_ROW[device], classes=SMALL),
    )
