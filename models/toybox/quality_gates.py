"""The ship gates of toybox: each a figure, what is allowed, and whether it holds.

What it is: the list of gates and their verdicts. What it is not: measuring.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """`figure` must be at least ("min") or at most ("max") `limit`; for "max", by size."""

    name: str
    figure: str
    sense: Literal["min", "max"]
    limit: float

    def passed(self, figures: Mapping[str, float]) -> bool | None:
        """None if the figure was not measured."""
        value = figures.get(self.figure)
        if value is None or math.isnan(value):
            return None
        return value >= self.limit if self.sense == "min" else abs(value) <= self.limit


GATES = (
    Gate(name="autoencoder PSNR, dB", figure="psnr", sense="min", limit=30.0),
    Gate(name="all attributes right, 2 steps", figure="all_right", sense="min", limit=0.85),
    Gate(name="the same, held-out", figure="held_out_all_right", sense="min", limit=0.70),
    Gate(name="event F1 within 50 ms", figure="event_f1", sense="min", limit=0.8),
    Gate(name="event median offset, ms", figure="event_offset_ms", sense="max", limit=25.0),
    Gate(name="drift ratio, 1,000 frames", figure="drift_ratio_1000", sense="max", limit=1.3),
    Gate(name="survival, 1,000 frames", figure="survival_1000", sense="min", limit=0.95),
    Gate(name="steering, s", figure="steering_s", sense="max", limit=1.0),
    Gate(name="Frechet, 2 over 20 steps", figure="frechet_2_over_teacher", sense="max", limit=1.1),
    Gate(name="GRPO: gain in prompts", figure="grpo_gain", sense="min", limit=0.01),
    Gate(name="GRPO: Frechet ratio", figure="grpo_frechet_ratio", sense="max", limit=1.1),
)


def verdicts(figures: Mapping[str, float]) -> list[dict[str, str | float | bool | None]]:
    """One entry per gate; `passed` is null where nothing was measured."""
    return [
        {
            "gate": g.name,
            "figure": g.figure,
            "value": finite(figures.get(g.figure)),
            "sense": g.sense,
            "limit": g.limit,
            "passed": g.passed(figures),
        }
        for g in GATES
    ]


def finite(value: float | None) -> float | None:
    """JSON knows no infinity and no nan: null. Four places."""
    return None if value is None or not math.isfinite(value) else round(value, 4)


def gate_lines(figures: Mapping[str, float]) -> list[str]:
    """The gates as a table for people."""
    words = {True: "pass", False: "FAIL", None: "not measured"}
    lines = []
    for g in GATES:
        value = figures.get(g.figure)
        shown = "-" if value is None else f"{value:.3f}"
        sign = ">=" if g.sense == "min" else "<="
        lines.append(f"{g.name:<32}{shown:>9} {sign} {g.limit:<6g} {words[g.passed(figures)]}")
    return lines
