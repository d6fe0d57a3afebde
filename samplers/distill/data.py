"""Clips to train on: rendered, encoded and kept in memory, refreshed all the time.

What it is: a ring of latent clips that any number of threads may read while another adds, and the
batches cut from it. A clip is a pure function of (seed, its number). What it is not: files; the
renderer is fast enough to make every clip on the spot.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from onbeat.models.toybox.attributes import labels_of
from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.concepts import CHUNK_FRAMES, FPS
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.render import render
from onbeat.models.toybox.scenes import SceneBatch, sample_scenes
from onbeat.models.toybox.sound import render_audio
from onbeat.models.toybox.text import tokenise
from onbeat.models.toybox.video_codec import VideoCodec, pack

OBJECT_WEIGHT = 7.0
"""Extra loss weight of a video token that an object touches."""
EVENT_WEIGHT = 2.0
"""Extra loss weight of an audio token in which something sounds."""
TEXT_DROPOUT = 0.1
SPELLED = 0.04
"""Share of words that are read by their letters, so that unknown words mean something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clips:
    """A batch: b clips of n chunks. Latents have unit variance; weights have no unit."""

    audio: Tensor
    """float32 [b, n, 4, 24]."""
    video: Tensor
    """float32 [b, n, 16, 256]."""
    audio_weight: Tensor
    """float32 [b, n, 4]; video_weight [b, n, 16] alike."""
    video_weight: Tensor
    text: Tensor
    """int64 [b, 2, slots, pieces]: the prompts before and after `change`."""
    change: Tensor
    """int64 [b] chunk from which the second prompt holds; n if it never does."""
    labels: Tensor
    """int64 [b, 2, 3] what the full prompts before and after `change` name (labels_of)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What the clips of a pool are: `chunks` kept after `lead` chunks that only warm the sound up;
    `tail` frames at the end are not used, as their sound lacks its future."""

    chunks: int
    lead: int = 0
    tail: int = 0
    change_probability: float = 0.3
    one_object: float = 0.4
    """Share of clips with a single object on purpose."""


class ClipPool:
    """A ring of `capacity` latent clips."""

    def __init__(
        self,
        config: ToyboxConfig,
        codecs: tuple[VideoCodec, AudioCodec],
        cut: Cut,
        seed: int,
        capacity: int,
    ) -> None:
        self._config, self._cut, self._seed = config, cut, seed
        self._video_codec, self._audio_codec = codecs
        frames = cut.chunks * CHUNK_FRAMES - cut.tail
        self.frames = frames
        self.made = 0
        self._video = torch.zeros(capacity, frames, 16, 8, 8, dtype=torch.bfloat16)
        self._audio = torch.zeros(capacity, frames, config.audio_dim)
        self._touched = torch.zeros(capacity, frames, config.video_tokens, dtype=torch.bool)
        self._sounds = torch.zeros(capacity, frames, dtype=torch.bool)
        self._prompts: list[list[str]] = [[] for _ in range(capacity)]

    @property
    def size(self) -> int:
        return min(self.made, len(self._prompts))

    @torch.no_grad()
    def add(self, count: int) -> None:
        """Renders and encodes `count` clips over the oldest ones. One caller at a time."""
        cut, number = self._cut, self.made
        chunks = cut.lead + cut.chunks
        scenes = sample_scenes(
            (self._seed << 32) + number,
            count,
            chunks,
            change_probability=cut.change_probability,
            one_object=number * 0.6180339887 % 1.0 < cut.one_object,
            held_out=False,
        )
        first = cut.lead * CHUNK_FRAMES
        pixels, mask = render(scenes, first, self.frames)
        frames = pixels.permute(0, 1, 4, 2, 3).float().div_(127.5).sub_(1.0)
        with torch.autocast("cpu", torch.bfloat16):
            video = [self._video_codec.encode(f[None])[0] for f in frames]
        audio = self._audio_codec.encode(render_audio(scenes))
        at = (torch.arange(count) + number) % len(self._prompts)
        self._video[at] = torch.stack(video).to(torch.bfloat16)
        self._audio[at] = audio[:, first : first + self.frames].float()
        self._touched[at] = touched_tokens(mask, self._config.video_grid)
        self._sounds[at] = sounding_frames(scenes)[:, first : first + self.frames]
        for place, row in zip(at.tolist(), scenes.prompts, strict=True):
            self._prompts[place] = row[cut.lead :]
        self.made += count

    def frames_and_labels(self) -> tuple[Tensor, Tensor]:
        """All latent frames [c, f, 16, 8, 8] and what the clips' first prompts name [c, 3]."""
        return self._video[: self.size], labels_of([p[0] for p in self._prompts[: self.size]])

    def sample(self, generator: torch.Generator, clips: int, chunks: int) -> Clips:
        """`clips` cuts of `chunks` chunks each, at random places; single chunks start at any
        frame, longer cuts at a chunk's start (where prompts change)."""
        stride = 1 if chunks == 1 else CHUNK_FRAMES
        length = chunks * CHUNK_FRAMES
        which = torch.randint(self.size, (clips,), generator=generator)
        starts = (self.frames - length) // stride + 1
        start = torch.randint(starts, (clips,), generator=generator) * stride
        frames = start[:, None] + torch.arange(length)
        rows = which[:, None]
        video = self._video[rows, frames].float().unflatten(1, (chunks, CHUNK_FRAMES))
        touched = self._touched[rows, frames].unflatten(1, (chunks, CHUNK_FRAMES)).any(2)
        sounds = self._sounds[rows, frames].unflatten(1, (chunks, CHUNK_FRAMES))
        audio = self._audio[rows, frames].unflatten(1, (chunks, CHUNK_FRAMES))
        pairs = [
            self._pair(self._prompts[w][s // CHUNK_FRAMES : s // CHUNK_FRAMES + chunks])
            for w, s in zip(which.tolist(), start.tolist(), strict=True)
        ]
        text = [self._tokens(p[:2], generator) for p in pairs]
        labels = labels_of([prompt for p in pairs for prompt in p[:2]])
        return Clips(
            audio=audio,
            video=pack(video.flatten(0, 1)).unflatten(0, (clips, chunks)),
            audio_weight=1.0 + EVENT_WEIGHT * sounds,
            video_weight=1.0 + OBJECT_WEIGHT * touched,
            text=torch.stack(text),
            change=torch.tensor([p[2] for p in pairs]),
            labels=labels.unflatten(0, (clips, 2)),
        )

    @staticmethod
    def _pair(prompts: Sequence[str]) -> tuple[str, str, int]:
        changes = [i for i in range(1, len(prompts)) if prompts[i] != prompts[i - 1]]
        assert len(changes) <= 1, prompts
        return prompts[0], prompts[-1], changes[0] if changes else len(prompts)

    def _tokens(self, prompts: Sequence[str], generator: torch.Generator) -> Tensor:
        """int64 [2, slots, pieces]; some clips lose their prompts."""
        slots, buckets = self._config.text_slots, self._config.trigram_buckets
        drop = float(torch.rand((), generator=generator)) < TEXT_DROPOUT
        bits = torch.rand(slots, generator=generator) < SPELLED
        spelled = sum(1 << i for i, bit in enumerate(bits.tolist()) if bit)
        return torch.stack([tokenise("" if drop else p, slots, buckets, spelled) for p in prompts])


def touched_tokens(mask: Tensor, grid: int) -> Tensor:
    """Cover [b, f, h, w] in 0..1 -> bool [b, f, grid * grid]: where an object is."""
    return F.adaptive_max_pool2d(mask, grid).flatten(2) > 0.3


def sounding_frames(scenes: SceneBatch) -> Tensor:
    """bool [b, frames]: in which frames of each clip an event begins."""
    frames = round(scenes.seconds * FPS)
    sounds = torch.zeros(scenes.count, frames, dtype=torch.bool)
    for clip, events in enumerate(scenes.events):
        for event in events:
            sounds[clip, min(int(event.time * FPS), frames - 1)] = True
    return sounds
