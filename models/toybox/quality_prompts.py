"""Whether prompts are obeyed: shares of attributes that come out right, and how the clips look.

What it is: clips of prompts at a number of steps, read by the detector. What it is not: a judge of
long clips (quality_long.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from onbeat.models.toybox.concepts import CHUNK_FRAMES
from onbeat.models.toybox.detector import detect
from onbeat.models.toybox.motions import motion_of
from onbeat.models.toybox.quality_events import Figures
from onbeat.models.toybox.quality_scenes import PICTURED, Generate, Said, verdict

CHUNKS = 6
"""Length of a clip; single frames are judged by its last chunk, motion by all but its first."""
ROWS = 32
"""Clips generated at once."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Clips of prompts: `frames` uint8 [s, 4 * CHUNKS, h, w, 3]."""

    said: Sequence[Said]
    frames: Tensor

    @cached_property
    def pictured(self) -> list[dict[str, bool]]:
        """Per clip what is right of PICTURED."""
        pairs = zip(self.frames, self.said, strict=True)
        return [verdict(detect(clip[-CHUNK_FRAMES:]), s.label) for clip, s in pairs]

    @cached_property
    def marks(self) -> list[dict[str, bool]]:
        """`pictured`, then motion."""
        rows = zip(self.pictured, self.frames, self.said, strict=True)
        return [
            marks | {"motion": motion_of(detect(clip[CHUNK_FRAMES:])) == s.motion}
            for marks, clip, s in rows
        ]

    @property
    def good(self) -> list[bool]:
        return [all(marks.values()) for marks in self.marks]


def show(
    generate: Generate, said: Sequence[Said], seed: int, steps: int, *, euler: bool = False
) -> Shown:
    """Generates a clip of each prompt; clip i has seed `seed` + i."""
    parts = []
    for at in range(0, len(said), ROWS):
        prompts = [s.prompt for s in said[at : at + ROWS]]
        seeds = range(seed + at, seed + at + len(prompts))
        chunks = generate(lambda _, p=prompts: p, seeds, CHUNKS, steps, euler=euler)  # type: ignore[misc]
        parts.append(torch.cat([frames for frames, _ in chunks], dim=1))
    return Shown(said=said, frames=torch.cat(parts))


def shares(marks: Sequence[dict[str, bool]], prefix: str) -> Figures:
    """Shares of clips with each attribute right, with all that single frames show (pictured), and
    with motion too (all), if it was judged."""
    figures = {f"{prefix}{k}_right": float(np.mean([m[k] for m in marks])) for k in marks[0]}
    pictured = [all(m[k] for k in PICTURED) for m in marks]
    figures[f"{prefix}pictured_right"] = float(np.mean(pictured))
    if "motion" in marks[0]:
        figures[f"{prefix}all_right"] = float(np.mean([all(m.values()) for m in marks]))
    return figures
