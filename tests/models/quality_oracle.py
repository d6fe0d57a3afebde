"""Generators for tests of the quality report: one that renders the truth, and ways to spoil it.

What it is: stand-ins for a model. What it is not: a test.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from onbeat.models.toybox.quality_scenes import PromptOf, Said, true_frames, true_scenes
from onbeat.models.toybox.sound import render_audio

Spoil = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Chunk number, frames and sound -> what is shown instead."""


class Oracle:
    """Shows the true scene of each prompt; `late` chunks after the prompt asks for it."""

    def __init__(
        self, said: Sequence[Said], late: int = 0, spoil: Spoil = lambda c, f, s: (f, s)
    ) -> None:
        self._said = {s.prompt: s for s in said}
        self._late, self._spoil = late, spoil

    def __call__(
        self,
        prompts: PromptOf,
        seeds: Sequence[int],
        chunks: int,
        steps: int,
        *,
        euler: bool = False,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Frames, and sound at 24 kHz."""
        made: dict[tuple[str, ...], tuple[Tensor, Tensor]] = {}
        for chunk in range(chunks):
            asked = tuple(prompts(max(0, chunk - self._late)))
            if asked not in made:
                scenes = [self._said[p] for p in asked]
                made[asked] = true_frames(scenes, chunks), render_audio(true_scenes(scenes, chunks))
            frames, sound = made[asked]
            size = sound.shape[1] // chunks
            cut = sound[:, chunk * size : (chunk + 1) * size]
            yield self._spoil(chunk, frames[:, 4 * chunk : 4 * chunk + 4], cut)


def grey(chunk: int, frames: Tensor, sound: Tensor) -> tuple[Tensor, Tensor]:
    """A picture and a sound of nothing."""
    return torch.full_like(frames, 90), torch.zeros_like(sound)


def fading(chunk: int, frames: Tensor, sound: Tensor) -> tuple[Tensor, Tensor]:
    """Pictures that turn dark within 50 chunks."""
    return (frames * max(0.0, 1.0 - chunk / 50.0)).to(torch.uint8), sound
