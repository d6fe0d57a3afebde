"""The run of the few-step stage: its data, pieces and schedule.

What it is: what consistency.py's loss is fed with. What it is not: the loss or the loop.
"""

import copy
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from onbeat.samplers.distill.consistency import Recipe, consistency_loss, resampled_loss
from onbeat.samplers.distill.data import Clips
from onbeat.samplers.distill.loop import Run, Stage, train_loop
from onbeat.samplers.distill.losses import Extra
from onbeat.samplers.distill.networks import Networks
from onbeat.samplers.distill.samples import served, write_samples
from onbeat.samplers.distill.teacher import (
    Codecs,
    both,
    picture_pieces,
    picture_pool,
    sequence_pieces,
    sequence_pool,
    start,
)

PEAK = 0.6
"""Of the teacher's learning rates."""
PICTURE_PIECES, SEQUENCE_PIECES = 2, 4


def student_loss(
    teacher: Networks, recipe: Recipe, extra: Extra | None = None
) -> Callable[..., Tensor]:
    def loss(nets: Networks, clips: Clips, copies: int, generator: torch.Generator) -> Tensor:
        if float(torch.rand((), generator=generator)) < recipe.distil:
            return consistency_loss(nets, teacher, recipe, clips, copies, generator)
        return resampled_loss(nets, recipe, clips, copies, generator, extra)

    return loss


def teacher_of(checkpoint: Path, seed: int) -> Networks:
    """The averaged weights of the teacher's checkpoint, for reading only."""
    run = start(checkpoint.parent, seed, True)
    return copy.deepcopy(run.ema).eval().requires_grad_(False)


def train_student(
    codecs: Codecs,
    minutes: float,
    out: Path,
    seed: int,
    *,
    resume: bool,
    teacher: Path,
    recipe: Recipe,
    extra: Extra | None = None,
    steps: int | None = None,
) -> Run:
    """Distils the checkpoint `teacher`, starting from its weights."""
    run = start(out, seed, resume, teacher)
    loss = student_loss(teacher_of(teacher, seed), recipe, extra)
    pictures, pool = picture_pool(codecs, seed + 2, 320), sequence_pool(codecs, seed + 2, 60)

    def refresh() -> None:
        pool.add(3)
        pictures.add(6)

    stage = Stage(
        name="consistency",
        pieces=both(
            sequence_pieces(pool, loss, seed, SEQUENCE_PIECES),
            picture_pieces(pictures, loss, seed, PICTURE_PIECES),
        ),
        refresh=refresh,
        on_checkpoint=lambda r, o: write_samples(
            served(r.ema, codecs), o, r.step, chunks=13, prompts=24
        ),
        peak=PEAK,
        steps=steps,
    )
    train_loop(run, stage, minutes, out)
    return run
