"""Frechet distances between generated and true clips, in the features of the frozen attribute net.

What it is: frames to latents to 64 features (Heusel et al., 2017, with a net of the toy world in
place of Inception), one row per window of four frames. What it is not: a loss. The net is the one
whose features training compares; distances between models of that training flatter all alike.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onbeat.models.toybox.attributes import AttributeNet, labels_of
from onbeat.models.toybox.concepts import CHUNK_FRAMES
from onbeat.models.toybox.quality_codec import to_float
from onbeat.models.toybox.video_codec import VideoCodec

Rows = NDArray[np.float64]
AT_ONCE = 64


class Features:
    """A codec and the attribute net on top of it."""

    def __init__(self, codec: VideoCodec, net: AttributeNet) -> None:
        self._codec, self._net = codec, net

    def latents(self, frames: Tensor) -> Tensor:
        """uint8 [n, h, w, 3] -> [n, 16, 8, 8]."""
        parts = [self._codec.encode(to_float(f)[None])[0] for f in frames.split(AT_ONCE)]
        return torch.cat(parts)

    def windows(self, frames: Tensor) -> Rows:
        """uint8 [..., f, h, w, 3], f a multiple of 4 -> [windows, 64]."""
        rows = self._net.embed(self.latents(frames.flatten(0, -4)))
        means: Rows = rows.unflatten(0, (-1, CHUNK_FRAMES)).mean(1).double().numpy()
        return means

    def error(self, frames: Tensor, prompts: Sequence[str]) -> dict[str, float]:
        """The net's own share of wrong answers on true frames [s, h, w, 3] of prompts."""
        want = labels_of(prompts)
        got = self._net(self.latents(frames))
        names = ("shape", "colour", "background")
        return {
            f"net_{name}_error": float((logits.argmax(1) != want[:, i]).float().mean())
            for i, (name, logits) in enumerate(zip(names, got, strict=True))
        }


def frechet(a: Rows, b: Rows) -> float:
    """Distance of the Gaussians of two sets of rows [n, d]: |m - n|^2 + tr(A + B - 2 (A B)^1/2).

    Through singular values of the centred sets: tr (A B)^1/2 is the sum of those of X Y^T, which
    are those of their triangular factors. More rows than dimensions are not needed."""
    means = a.mean(0) - b.mean(0)
    x, y = (v - v.mean(0) for v in (a, b))
    x, y = x / np.sqrt(len(x) - 1), y / np.sqrt(len(y) - 1)
    cross = np.linalg.norm(np.linalg.qr(x).R @ np.linalg.qr(y).R.T, "nuc")
    return float(means @ means + (x**2).sum() + (y**2).sum() - 2.0 * cross)
