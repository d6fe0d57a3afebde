"""Cost curves of simulated devices: seconds of one forward by its number of rows. Plain data.

What it is not: the engine's cost model (cost.py), which learns; a curve is the truth it learns.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from onbeat.server.engine.cost import interpolate

Table = Mapping[int, float]

SUBLINEAR: Table = {1: 0.167, 2: 0.183, 3: 0.186, 4: 0.240, 8: 0.425, 16: 0.832}
"""Seconds per step of a 20B image transformer at 512x512 on one H200 by batch size, as reported in
https://github.com/sgl-project/sglang/pull/22183: a device with room at one row."""
LINEAR: Table = {1: 1.0, 16: 16.0}
"""A saturated device: a batch costs what its rows cost one by one."""
CURVES: Mapping[str, Table] = {"A": SUBLINEAR, "B": LINEAR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """`seconds` by rows, linear between them and beyond the last; at least one entry."""

    seconds: Table

    def __post_init__(self) -> None:
        if not self.seconds or min(self.seconds) < 1 or min(self.seconds.values()) < 0.0:
            raise ValueError(f"seconds: {dict(self.seconds)}; allowed: rows >= 1, times >= 0")

    def at(self, rows: int) -> float:
        sizes = sorted(self.seconds)
        return interpolate(sizes, [self.seconds[n] for n in sizes], rows)

    def table(self, most: int) -> list[float]:
        """Seconds of 0 (never run), 1, ... `most` rows."""
        return [0.0, *(self.at(rows) for rows in range(1, most + 1))]

    def best_row_seconds(self, most: int) -> float:
        """The least seconds per row of any batch of at most `most` rows."""
        return min(self.at(rows) / rows for rows in range(1, most + 1))


def curve(name: str, row_seconds: float) -> Curve:
    """Curve "A" or "B", scaled so that one row takes `row_seconds`."""
    if name not in CURVES:
        raise ValueError(f"curve: {name!r}; allowed: {', '.join(CURVES)}")
    shape = CURVES[name]
    return Curve(seconds={rows: row_seconds * t / shape[1] for rows, t in shape.items()})
