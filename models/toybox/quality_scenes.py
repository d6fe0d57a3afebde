"""The scenes by which toybox is judged: prompts that name everything, and the truth for each.

What it is: sampling of prompts of one object with what they say, rendering of their true scenes,
and the verdict on frames. What it is not: generation, or figures over many clips.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from torch import Tensor

from onbeat.models.toybox.concepts import CHUNK_FRAMES, MOTIONS, SceneLabel, is_held_out
from onbeat.models.toybox.detector import Detection
from onbeat.models.toybox.prompts import recognise
from onbeat.models.toybox.render import render
from onbeat.models.toybox.scenes import SceneBatch, Tracks, sample_scenes

PICTURED = ("background", "object", "colour", "shape")
"""What single frames show of a prompt; its motion needs a clip."""
SAMPLED = 400
"""Scenes looked through at a time."""
MOST_ROUNDS = 50
PromptOf = Callable[[int], Sequence[str]]
"""Chunk number -> the prompt of each row."""


class Generate(Protocol):
    """What is measured. Yields chunk by chunk, for all rows together, frames uint8
    [r, 4, 128, 128, 3] and sound int16 or float within +-1 [r, n]. `euler`: follow the path without
    fresh noise, as a teacher is sampled."""

    def __call__(
        self,
        prompts: PromptOf,
        seeds: Sequence[int],
        chunks: int,
        steps: int,
        *,
        euler: bool = False,
    ) -> Iterator[tuple[Tensor, Tensor]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A prompt that names background, colour, shape and motion of its only object. The scene is row
    `row` of `sample_scenes(seed, ...)`."""

    prompt: str
    label: SceneLabel
    seed: int
    row: int

    @property
    def motion(self) -> str:
        return self.label.actors[0].motion


def said_scenes(
    seed: int, count: int, *, held_out: bool, motions: Sequence[str] = MOTIONS
) -> list[Said]:
    """Scenes with what is held out of training, or without; only of the given motions."""
    found: list[Said] = []
    for at in range(MOST_ROUNDS):
        batch = _scenes(seed + 1000 * at, SAMPLED, 1)
        for row, (prompts, labels) in enumerate(zip(batch.prompts, batch.attributes, strict=True)):
            actor, words = labels[0].actors[0], recognise(prompts[0])
            named = {labels[0].background, actor.colour, actor.shape, actor.motion} <= set(words)
            if named and actor.motion in motions and is_held_out(actor) == held_out:
                said = Said(prompt=prompts[0], label=labels[0], seed=seed + 1000 * at, row=row)
                found.append(said)
        if len(found) >= count:
            break
    assert len(found) >= count, (seed, count, len(found))
    return found[:count]


def _scenes(seed: int, count: int, chunks: int) -> SceneBatch:
    return sample_scenes(seed, count, chunks, change_probability=0.0, one_object=True)


def true_scenes(said: Sequence[Said], chunks: int) -> SceneBatch:
    """The scenes of these prompts, `chunks` long, in their order."""
    parts, places = [], list[int]()
    for seed in dict.fromkeys(s.seed for s in said):
        mine = [i for i, s in enumerate(said) if s.seed == seed]
        rows = [said[i].row for i in mine]
        parts.append(_rows(_scenes(seed, max(rows) + 1, chunks), rows))
        places += mine
    return _rows(_joined(parts), [places.index(i) for i in range(len(said))])


def _rows(batch: SceneBatch, rows: Sequence[int]) -> SceneBatch:
    tracks = {f.name: getattr(batch.tracks, f.name)[list(rows)] for f in fields(Tracks)}
    return SceneBatch(
        prompts=[batch.prompts[r] for r in rows],
        attributes=[batch.attributes[r] for r in rows],
        tracks=Tracks(**tracks),
        events=[batch.events[r] for r in rows],
        ambience=[batch.ambience[r] for r in rows],
        seconds=batch.seconds,
    )


def _joined(parts: Sequence[SceneBatch]) -> SceneBatch:
    names = [f.name for f in fields(Tracks)]
    tracks = {n: np.concatenate([getattr(p.tracks, n) for p in parts]) for n in names}
    return SceneBatch(
        prompts=[row for p in parts for row in p.prompts],
        attributes=[row for p in parts for row in p.attributes],
        tracks=Tracks(**tracks),
        events=[row for p in parts for row in p.events],
        ambience=[row for p in parts for row in p.ambience],
        seconds=parts[0].seconds,
    )


def true_frames(said: Sequence[Said], chunks: int, first: int = 0) -> Tensor:
    """uint8 [s, 4 * chunks, h, w, 3] of the true scenes from chunk `first` on."""
    batch = true_scenes(said, first + chunks)
    return render(batch, first * CHUNK_FRAMES, chunks * CHUNK_FRAMES)[0]


def verdict(seen: Detection, label: SceneLabel) -> dict[str, bool]:
    """Which of the attributes that single frames show are those of the label."""
    actor = label.actors[0]
    return {
        "background": seen.background == label.background,
        "object": seen.found >= 0.5,
        "colour": seen.colour == actor.colour,
        "shape": seen.shape == actor.shape,
    }


def lives(seen: Detection, label: SceneLabel) -> bool:
    """Whether a stream still shows its background and an object of its colour."""
    marks = verdict(seen, label)
    return marks["background"] and marks["object"] and marks["colour"]
