"""How soon a new prompt shows.

What it is: streams whose prompt changes, and the time until the detector sees the new background
and an object of the new colour in two chunks running. What it is not: the delay of a network.
"""

from collections.abc import Sequence

import numpy as np

from onbeat.models.toybox.concepts import CHUNK_SECONDS
from onbeat.models.toybox.detector import detect
from onbeat.models.toybox.quality_events import Figures
from onbeat.models.toybox.quality_scenes import Generate, Said, lives

BEFORE, AFTER = 5, 12
"""Chunks before and after the change."""


def measure_steering(generate: Generate, said: Sequence[Said], seed: int, steps: int) -> Figures:
    """Of an even number of prompts the first half turns into the second. Times in seconds from the
    worst moment of asking (a whole chunk before the change acts); a stream that never shows its new
    prompt counts as infinite in the percentiles."""
    half = len(said) // 2
    old, new = [s.prompt for s in said[:half]], [s.prompt for s in said[half : 2 * half]]
    seeds = range(seed, seed + half)
    obeyed: list[list[bool]] = [[] for _ in range(half)]
    clips = generate(lambda chunk: old if chunk < BEFORE else new, seeds, BEFORE + AFTER, steps)
    for chunk, (frames, _) in enumerate(clips):
        if chunk >= BEFORE:
            for row, clip, s in zip(obeyed, frames, said[half:], strict=True):
                row.append(lives(detect(clip), s.label))
    times = np.array([_time(row) for row in obeyed])
    return {
        "steering_s": float(np.percentile(times, 50, method="higher")),
        "steering_p90_s": float(np.percentile(times, 90, method="higher")),
        "steering_within_1s": float(np.mean(times <= 1.0)),
    }


def _time(obeyed: Sequence[bool]) -> float:
    """Seconds until two chunks running obey."""
    for k in range(len(obeyed) - 1):
        if obeyed[k] and obeyed[k + 1]:
            return (k + 1) * CHUNK_SECONDS
    return float("inf")
