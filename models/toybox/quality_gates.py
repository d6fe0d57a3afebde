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
    of: str
    """What its figure is a share or a mean of."""

    def passed(self, figures: Mapping[str, float], counts: Mapping[str, int]) -> bool | None:
        """None if the figure was not measured, or of too few to judge by."""
        value = figures.get(self.figure)
        if value is None or math.isnan(value) or self.too_few(counts):
            return None
        return value >= self.limit if self.sense == "min" else abs(value) <= self.limit

    def too_few(self, counts: Mapping[str, int]) -> bool:
        return counts[self.of] < LEAST[self.of]


LEAST = {"prompts": 24, "held_out": 24, "teacher": 8, "streams": 8, "changes": 8, "codec_clips": 4}
"""Of each, so many have to be measured for a verdict."""
_ROWS: tuple[tuple[str, str, Literal["min", "max"], float, str], ...] = (
    ("autoencoder PSNR, dB", "psnr", "min", 30.0, "codec_clips"),
    ("all attributes right, 2 steps", "all_right", "min", 0.85, "prompts"),
    ("the same, held-out", "held_out_all_right", "min", 0.70, "held_out"),
    ("event F1 within 50 ms", "event_f1", "min", 0.8, "streams"),
    ("event median offset, ms", "event_offset_ms", "max", 25.0, "streams"),
    ("drift ratio, 1,000 frames", "drift_ratio_1000", "max", 1.3, "streams"),
    ("survival, 1,000 frames", "survival_1000", "min", 0.95, "streams"),
    ("steering, s", "steering_s", "max", 1.0, "changes"),
    ("Frechet, 2 over 20 steps", "frechet_2_over_teacher", "max", 1.1, "teacher"),
    ("GRPO: gain in prompts", "grpo_gain", "min", 0.01, "prompts"),
    ("GRPO: Frechet ratio", "grpo_frechet_ratio", "max", 1.1, "held_out"),
)
GATES = tuple(
    Gate(name=name, figure=figure, sense=sense, limit=limit, of=of)
    for name, figure, sense, limit, of in _ROWS
)


def verdicts(
    figures: Mapping[str, float], counts: Mapping[str, int]
) -> list[dict[str, str | float | bool | None]]:
    """One entry per gate; `passed` is null where nothing, or too little, was measured. counts: how
    many of each name in LEAST."""
    return [
        {
            "gate": g.name,
            "figure": g.figure,
            "value": finite(figures.get(g.figure)),
            "sense": g.sense,
            "limit": g.limit,
            "passed": g.passed(figures, counts),
        }
        for g in GATES
    ]


def finite(value: float | None) -> float | None:
    """JSON knows no infinity and no nan: null. Four places."""
    return None if value is None or not math.isfinite(value) else round(value, 4)


def gate_lines(figures: Mapping[str, float], counts: Mapping[str, int]) -> list[str]:
    """The gates as a table for people."""
    words = {True: "pass", False: "FAIL", None: "not measured"}
    lines = []
    for g in GATES:
        value = figures.get(g.figure)
        shown = "-" if value is None else f"{value:.3f}"
        sign = ">=" if g.sense == "min" else "<="
        word = words[g.passed(figures, counts)]
        if value is not None and g.too_few(counts):
            word = f"too few {g.of.replace('_', ' ')} to judge"
        lines.append(f"{g.name:<32}{shown:>9} {sign} {g.limit:<6g} {word}")
    return lines
