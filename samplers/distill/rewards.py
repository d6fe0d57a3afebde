"""How well rolled-out clips obey their prompts, read from latents by the two frozen nets.

What it is: rewards for policy gradients: what is pictured (attribute net), how it moves and how
evenly (cover net), without decoding a frame. What it is not: the judge. `onbeat quality` measures
with a rule-based detector on pixels that no training has seen, so that a policy which only flatters
these nets is found out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from onbeat.models.toybox.attributes import UNKNOWN, AttributeNet
from onbeat.models.toybox.concepts import CHUNK_FRAMES, SIZE
from onbeat.models.toybox.detector import Detection
from onbeat.models.toybox.motions import motion_of
from onbeat.models.toybox.video_codec import unpack
from onbeat.samplers.distill.cover import CoverNet

Rewards = dict[str, Tensor]
WEIGHTS = {"pictured": 1.0, "motion": 1.0, "even": 0.5}
SECOND = 20
"""Frames of a window over which a motion is judged, as the detector's judge does."""
HALF = SECOND // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The frozen nets."""

    attributes: AttributeNet
    cover: CoverNet

    @torch.no_grad()
    def __call__(self, video: Tensor, labels: Tensor, motions: Sequence[str]) -> Rewards:
        """video: clean tokens [r, n, 16, 256]; labels int64 [r, 3] (labels_of); motions asked.
        Each reward float32 [r]."""
        frames = unpack(video.flatten(0, 1)).unflatten(0, video.shape[:2]).flatten(1, 2)
        place = self.cover.place(frames.flatten(0, 1))
        centres = place.centre.unflatten(0, frames.shape[:2])
        areas = place.size.square().unflatten(0, frames.shape[:2])
        rows = zip(centres.numpy(), areas.numpy(), motions, strict=True)
        return {
            "pictured": self._pictured(frames, labels),
            "motion": torch.tensor([motion_share(c, a, asked) for c, a, asked in rows]),
            "even": evenness(centres),
        }

    def _pictured(self, frames: Tensor, labels: Tensor) -> Tensor:
        """Mean log-probability of the named attributes over the later half of the frames."""
        late = frames[:, frames.shape[1] // 2 :]
        total = torch.zeros(len(frames))
        for logits, want in zip(self.attributes(late.flatten(0, 1)), labels.T, strict=True):
            log = logits.log_softmax(1).unflatten(0, late.shape[:2]).mean(1)
            said = want != UNKNOWN
            total += log.gather(1, want.clamp(min=0)[:, None])[:, 0] * said
        return total


def motion_share(
    centres: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
    areas: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
    asked: str,
) -> float:
    """Share of windows of a second, without the first chunk, that move as asked. centres [f, 2] in
    frame sides, areas [f] as shares of the frame."""
    ends = range(CHUNK_FRAMES + SECOND, len(areas) + 1, HALF)
    seen = [_moves(centres[e - SECOND : e], areas[e - SECOND : e]) == asked for e in ends]
    return float(np.mean(seen)) if seen else 0.0


def _moves(
    centres: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
    areas: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> str | None:
    track = Detection(
        background="",
        background_margin=0.0,
        found=1.0,
        colour=None,
        shape=None,
        centres=centres.astype(np.float64) * SIZE,
        areas=areas.astype(np.float64),
    )
    return motion_of(track)


def evenness(centres: Tensor) -> Tensor:
    """[r] minus the logarithm by which steps between chunks differ from steps within them, in
    centres [r, f, 2]: 0 for a track without hops."""
    steps = centres.diff(dim=1).square().sum(2).sqrt()
    seam = torch.arange(1, steps.shape[1] + 1) % CHUNK_FRAMES == 0
    least = 0.5 / SIZE
    within, between = steps[:, ~seam].mean(1), steps[:, seam].mean(1)
    return -((within + least).log() - (between + least).log()).abs()
