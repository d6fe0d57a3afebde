"""What a latent frame shows, by a small frozen net: shape, colour and background.

What it is: the net, its features for losses and Frechet distances, and the labels that a prompt
gives for free. What it is not: its training (samplers/distill/attribute_training.py) or the judge
of prompts: that is the rule-based detector, which knows nothing of latents.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onbeat.models.toybox.concepts import BACKGROUNDS, COLOURS, SHAPES
from onbeat.models.toybox.prompts import recognise
from onbeat.models.toybox.video_codec import LATENT_CHANNELS

ATTRIBUTES: tuple[tuple[str, ...], ...] = (SHAPES, COLOURS, BACKGROUNDS)
UNKNOWN = -1
"""Label of an attribute that a prompt does not name, or names twice."""
WIDTH = 96
EMBEDDING = 64


class AttributeNet(nn.Module):
    """Four 3x3 convolutions over a latent frame, then one logit for each name of ATTRIBUTES."""

    def __init__(self) -> None:
        super().__init__()
        widths = (LATENT_CHANNELS, WIDTH, WIDTH, WIDTH)
        self.convs = nn.ModuleList(nn.Conv2d(w, WIDTH, 3, padding=1) for w in widths)
        self.head = nn.Linear(2 * WIDTH, EMBEDDING)
        self.out = nn.Linear(EMBEDDING, sum(map(len, ATTRIBUTES)))

    def features(self, latents: Tensor) -> tuple[Tensor, ...]:
        """[b, 16, 8, 8] -> feature maps [b, 96, 8, 8] of the second to the last convolution."""
        maps = [F.gelu(self.convs[0](latents))]
        for conv in self.convs[1:]:
            maps.append(maps[-1] + F.gelu(conv(maps[-1])))
        return tuple(maps[1:])

    def embed(self, latents: Tensor) -> Tensor:
        """[b, 16, 8, 8] -> [b, 64]."""
        return self.pooled(self.features(latents)[-1])

    def pooled(self, last: Tensor) -> Tensor:
        """The embedding [b, 64] of the last feature maps."""
        both = torch.cat([last.mean((2, 3)), last.amax((2, 3))], dim=1)
        return F.gelu(self.head(both))

    def logits(self, last: Tensor) -> tuple[Tensor, ...]:
        """Of the last feature maps, [b, names] for each of ATTRIBUTES, float32."""
        sizes = [len(names) for names in ATTRIBUTES]
        return tuple(self.out(self.pooled(last)).float().split(sizes, dim=1))

    def forward(self, latents: Tensor) -> tuple[Tensor, ...]:
        return self.logits(self.features(latents)[-1])


def labels_of(prompts: Sequence[str]) -> Tensor:
    """int64 [p, 3] place of the named shape, colour and background in ATTRIBUTES, or UNKNOWN."""
    rows = torch.full((len(prompts), len(ATTRIBUTES)), UNKNOWN)
    for row, prompt in zip(rows, prompts, strict=True):
        concepts = recognise(prompt)
        for i, names in enumerate(ATTRIBUTES):
            named = [names.index(c) for c in concepts if c in names]
            if len(named) == 1:
                row[i] = named[0]
    return rows
