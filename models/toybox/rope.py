"""Positions of toybox: where a token of a chunk lies in time and in the picture.

What it is: rotation angles on three axes (t in frames; y, x in cells of the token grid) for the
slots of a window, and the mask that keeps prompt keys free of time. What it is not: the rotation
itself, which is the kernel's. A pair of dimensions is (2 i, 2 i + 1).

Of the 16 pairs of a head, TIME_PAIRS turn with t, AXIS_PAIRS with y and as many with x; the rest
carry content only. Prompt keys lie at the origin and hold zeros in the time pairs: their logits
then do not depend on the query's slot, so one prompt page serves every place in the window.
"""

import torch
from torch import Tensor

from onbeat.kernels.paged_attention import Rope
from onbeat.models.toybox.config import ToyboxConfig

TIME_PAIRS = 6
AXIS_PAIRS = 3
TIME_RATES = (0.8, 0.03)
"""Radians per frame of the fastest and the slowest time pair."""
AXIS_RATES = (1.2, 0.2)
"""Radians per grid cell."""


def _rates(fastest: float, slowest: float, pairs: int) -> Tensor:
    return fastest * (slowest / fastest) ** (torch.arange(pairs, dtype=torch.float64) / (pairs - 1))


def chunk_angles(config: ToyboxConfig, first_frame: Tensor) -> Tensor:
    """Angles float64 [s, chunk_tokens, head_dim / 2] of chunks that start at frame
    `first_frame` [s] of any common clock. A video token lies amid its four frames."""
    f, g = config.chunk_frames, config.video_grid
    inside = torch.full((config.chunk_tokens,), (f - 1) / 2, dtype=torch.float64)
    inside[: config.audio_tokens] = torch.arange(f, dtype=torch.float64)
    cell = torch.arange(config.video_tokens)
    y, x = torch.zeros(2, config.chunk_tokens, dtype=torch.float64)
    y[config.audio_tokens :] = (cell // g).double()
    x[config.audio_tokens :] = (cell % g).double()
    t = first_frame.double()[:, None] + inside
    angles = torch.zeros(*t.shape, config.head_dim // 2, dtype=torch.float64)
    axis = _rates(*AXIS_RATES, AXIS_PAIRS)
    angles[..., :TIME_PAIRS] = t[..., None] * _rates(*TIME_RATES, TIME_PAIRS)
    angles[..., TIME_PAIRS : TIME_PAIRS + AXIS_PAIRS] = y[:, None] * axis
    angles[..., TIME_PAIRS + AXIS_PAIRS : TIME_PAIRS + 2 * AXIS_PAIRS] = x[:, None] * axis
    return angles


def window_rope(config: ToyboxConfig) -> Rope:
    """Rotations of the sink (identity), the window's slots and, last, the row's own chunk."""
    slots = torch.arange(config.window_chunks + 1) * config.chunk_frames
    tokens = max(config.chunk_tokens, config.prefix_tokens)
    angles = torch.zeros(config.window_chunks + 2, tokens, config.head_dim // 2).double()
    angles[1:, : config.chunk_tokens] = chunk_angles(config, slots)
    return Rope(cos=angles.cos().float(), sin=angles.sin().float())


def timeless_mask(config: ToyboxConfig) -> Tensor:
    """float32 [head_dim]: 0 in the time pairs, 1 elsewhere; multiplies the keys of a prompt."""
    mask = torch.ones(config.head_dim)
    mask[: 2 * TIME_PAIRS] = 0.0
    return mask
