"""`onbeat quality`: the figures of toybox as it is served, from its weights file.

What it is: the offline generator joined to the measurements of models/toybox/quality.py. What it is
not: a gate, or a measurement of speed.
"""

from functools import partial
from pathlib import Path

import torch

from onbeat.models.toybox.quality import run_quality
from onbeat.models.toybox.weights import load_toybox, load_video_codec
from onbeat.samplers.distill.generate import generate


def measure_quality(
    *, prompts: int, steps: int, seed: int, sheet: Path | None, quiet: bool
) -> dict[str, float]:
    """Runs all measurements on the packaged weights, prints them, and returns the figures."""
    torch.set_num_threads(1)
    return run_quality(
        partial(generate, load_toybox()),
        prompts=prompts,
        seed=seed,
        steps=steps,
        sheet=sheet,
        codec=load_video_codec(),
        quiet=quiet,
    )
