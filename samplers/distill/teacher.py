"""The teacher: flow matching, first on single chunks (text to picture), then on sequences.

What it is: the two stages' data, batch sizes and losses. What it is not: the loop (loop.py).
Pictures come first because objects are a small part of the loss and learned last from long clips.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.samplers.distill.data import ClipPool, Clips, Cut
from onbeat.samplers.distill.loop import Piece, Run, Stage, load_run, new_run, train_loop
from onbeat.samplers.distill.losses import Extra, teacher_loss
from onbeat.samplers.distill.networks import Networks
from onbeat.samplers.distill.samples import served, write_samples

Codecs = tuple[VideoCodec, AudioCodec]
Loss = Callable[[Networks, Clips, int, torch.Generator], Tensor]

PICTURES = Cut(chunks=2, lead=1, tail=2, change_probability=0.0, one_object=0.8)
SEQUENCES = Cut(chunks=15, change_probability=0.1, one_object=0.75)
PICTURE_CAPACITY, SEQUENCE_CAPACITY = 16_000, 4_000
PICTURE_PIECE, PICTURE_COPIES = 8, 8
"""Clips of one piece of single chunks, and noisy copies of each."""
SEQUENCE_PIECE, SEQUENCE_COPIES = 2, 2
CHUNKS = 13
"""Of a training sequence: its last chunk has a full window."""


def picture_pool(codecs: Codecs, seed: int, clips: int) -> ClipPool:
    pool = ClipPool(ToyboxConfig(), codecs, PICTURES, 2 * seed, PICTURE_CAPACITY)
    return fill(pool, clips, 16)


def sequence_pool(codecs: Codecs, seed: int, clips: int) -> ClipPool:
    pool = ClipPool(ToyboxConfig(), codecs, SEQUENCES, 2 * seed + 1, SEQUENCE_CAPACITY)
    return fill(pool, clips, 4)


def fill(pool: ClipPool, clips: int, at_once: int) -> ClipPool:
    while pool.made < clips:
        pool.add(at_once)
    return pool


def loss_piece(
    loss: Loss, nets: Networks, clips: Clips, copies: int, generator: torch.Generator
) -> Piece:
    return partial(loss, nets, clips, copies, generator)


def generator_of(seed: int, step: int) -> torch.Generator:
    """One of its own for each pair; torch reads only the low 32 bits of a seed."""
    mixed = np.random.SeedSequence(seed, spawn_key=(step,)).generate_state(1)[0]
    return torch.Generator().manual_seed(int(mixed))


def picture_pieces(pool: ClipPool, loss: Loss, seed: int, count: int) -> Callable[..., list[Piece]]:
    """`count` pieces of single chunks a step."""

    def pieces(step: int, run: Run) -> list[Piece]:
        found = []
        for i in range(count):
            g = generator_of(seed, step * 64 + i)
            clips = pool.sample(g, PICTURE_PIECE, 1)
            found.append(loss_piece(loss, run.nets, clips, PICTURE_COPIES, g))
        return found

    return pieces


def sequence_pieces(
    pool: ClipPool, loss: Loss, seed: int, count: int, copies: int = SEQUENCE_COPIES
) -> Callable[..., list[Piece]]:
    """`count` pieces of sequences a step."""

    def pieces(step: int, run: Run) -> list[Piece]:
        found = []
        for i in range(count):
            g = generator_of(seed, step * 64 + 32 + i)
            clips = pool.sample(g, SEQUENCE_PIECE, CHUNKS)
            found.append(loss_piece(loss, run.nets, clips, copies, g))
        return found

    return pieces


def both(*sources: Callable[..., Sequence[Piece]]) -> Callable[..., list[Piece]]:
    return lambda step, run: [piece for source in sources for piece in source(step, run)]


def train_pictures(
    codecs: Codecs,
    minutes: float,
    out: Path,
    seed: int,
    *,
    resume: bool,
    extra: Extra | None = None,
    warm: int = 1000,
    steps: int | None = None,
) -> Run:
    """Single chunks: 4 pieces of 8 clips in 8 noisy copies a step."""
    run = start(out, seed, resume)
    pool = picture_pool(codecs, seed, warm)
    stage = Stage(
        name="pictures",
        pieces=picture_pieces(pool, partial(teacher_loss, extra=extra), seed, 4),
        refresh=partial(pool.add, 4),
        on_checkpoint=lambda r, o: write_samples(
            served(r.ema, codecs), o, r.step, chunks=1, prompts=80, steps=4
        ),
        steps=steps,
    )
    train_loop(run, stage, minutes, out)
    return run


def train_sequences(
    codecs: Codecs,
    minutes: float,
    out: Path,
    seed: int,
    *,
    resume: bool,
    after: Path | None,
    extra: Extra | None = None,
    warm: int = 200,
    steps: int | None = None,
) -> Run:
    """Sequences of 13 chunks, with two pieces of single chunks in each step; starts from the
    checkpoint `after` of the pictures."""
    run = start(out, seed, resume, after)
    pictures, pool = picture_pool(codecs, seed + 1, 640), sequence_pool(codecs, seed, warm)
    loss = partial(teacher_loss, extra=extra)

    def refresh() -> None:
        pool.add(4)
        pictures.add(4)

    stage = Stage(
        name="sequences",
        pieces=both(
            sequence_pieces(pool, loss, seed, 4),
            picture_pieces(pictures, loss, seed, 2),
        ),
        refresh=refresh,
        on_checkpoint=lambda r, o: write_samples(
            served(r.ema, codecs), o, r.step, chunks=13, prompts=24, steps=4
        ),
        steps=steps,
    )
    train_loop(run, stage, minutes, out)
    return run


def start(out: Path, seed: int, resume: bool, after: Path | None = None) -> Run:
    """The run of `out` if it resumes, else new networks or those of a finished stage."""
    torch.manual_seed(seed)
    run = new_run(Networks(ToyboxConfig()))
    if resume and (out / "state.pt").exists():
        load_run(run, out / "state.pt")
    elif after is not None:
        load_run(run, after)
        run.nets.load_state_dict(run.ema.state_dict())
        run.step, run.seconds = 0, 0.0
    return run
