"""The loss that spends gradient on what a picture shows, not only on its numbers.

A shape is a few latent numbers at an outline: a squared error hardly sees it, a net that tells
shapes apart does. So predictions are held to the truth in the features of a frozen net (perceptual
loss, arXiv 1603.08155), and to the shape that the prompt names. What it is not: the net
(models/toybox/attributes.py), its training, or a judge of results.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from onbeat.models.toybox.attributes import UNKNOWN, AttributeNet
from onbeat.models.toybox.concepts import CHUNK_FRAMES
from onbeat.models.toybox.video_codec import unpack
from onbeat.samplers.distill.data import Clips
from onbeat.samplers.distill.losses import LEAST_TIME, Draw

MORPH_CHUNKS = 3
"""So long after a change of prompt the picture is between two prompts."""
PURE = 0.995
"""From this time on the best prediction is a mean of many pictures, which shows no shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeLoss:
    """`features`, `shape`: weights of the two parts beside the velocity loss."""

    net: AttributeNet
    features: float = 3.0
    shape: float = 0.5

    def __call__(self, predicted: Tensor, d: Draw, clips: Clips) -> Tensor:
        """Scalar; `predicted` video x0 [b, s, n, 16, 256] of the draw `d`. One frame of each chunk
        of the copies counts, in turn, as its frames are alike."""
        first = int(d.history)
        got, want = (v[:, first:].flatten(0, 2) for v in (predicted, d.clean["video"]))
        times = d.times["video"][:, first:]
        copies = times.shape[1]
        chosen = frame_of(got)
        with torch.autocast("cpu", torch.bfloat16):
            mine = self.net.features(pick(got, chosen))
            with torch.no_grad():
                true = self.net.features(pick(want, chosen))
        t = times.flatten()
        total = self.features * (feature_error(mine, true) * feature_weight(t)).mean()
        if self.shape:
            named = shapes_in_force(clips)[:, None].expand(-1, copies, -1).flatten()
            total = total + self.shape * self._shape_error(mine[-1], named, 1.0 - t)
        return total

    def _shape_error(self, last: Tensor, named: Tensor, weight: Tensor) -> Tensor:
        """Cross-entropy of the named shape, weighted; zero where none is known."""
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.net.logits(last)[0]
        weight = weight * (named != UNKNOWN)
        each = F.cross_entropy(logits, named.clamp(min=0), reduction="none")
        return (each * weight).sum() / weight.sum().clamp(min=1e-3)


def frame_of(tokens: Tensor) -> Tensor:
    """A frame of each chunk, in turn: int64 [rows]."""
    return torch.arange(len(tokens)) % CHUNK_FRAMES


def pick(tokens: Tensor, frames: Tensor) -> Tensor:
    """[r, 16, 256] -> the latents [r, 16, 8, 8] of one frame of each."""
    return unpack(tokens)[torch.arange(len(tokens)), frames]


def feature_error(mine: tuple[Tensor, ...], true: tuple[Tensor, ...]) -> Tensor:
    """[rows] squared distance of feature maps over their mean square, mean over the maps."""
    errors = [
        (m.float() - y.float()).square().mean((1, 2, 3)) / y.float().square().mean()
        for m, y in zip(mine, true, strict=True)
    ]
    return torch.stack(errors).mean(0)


def feature_weight(times: Tensor) -> Tensor:
    """1 / t as far as LEAST_TIME; 0 at pure noise."""
    return times.clamp(min=LEAST_TIME).reciprocal() * (times < PURE)


def shapes_in_force(clips: Clips) -> Tensor:
    """int64 [b, n] the shape that a chunk's prompt names; UNKNOWN while the picture morphs."""
    chunks = torch.arange(clips.video.shape[1])
    change = clips.change[:, None]
    before, after = clips.labels[:, 0, :1], clips.labels[:, 1, :1]
    named = torch.where(chunks < change, before, after)
    morphs = (chunks >= change) & (chunks < change + MORPH_CHUNKS)
    return named.masked_fill(morphs, UNKNOWN)
