"""Whole clips through the denoiser at once: the layout and attention of training.

What it is: a clip of n chunks as s streams side by side, first the history (as the cache will hold
it), then copies to denoise. Chunk i of a copy sees the prompt in force at i, history before i and
itself: just what a served row sees in its pages. What it is not: a loss or a network. Attention is
plain matrix products: on CPU their gradient costs half of the fused attention's.

Letters: b clips, s streams, n chunks, t tokens of a chunk, h heads, e numbers per head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from onbeat.kernels.paged_attention import rotate
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.dit import Attend
from onbeat.models.toybox.rope import chunk_angles

GROUP = 2
"""Chunks that attend in one call: small groups waste little on masked pairs."""
PROMPTS = 2
"""Prompts of a clip: before and after its change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`streams` of `chunks`; with `history` the first stream is the history of all others."""

    config: ToyboxConfig
    streams: int
    chunks: int
    history: bool

    def fold(self, x: Tensor) -> Tensor:
        """[b, s, n, ...] -> rows [b * s * n, ...]."""
        return x.flatten(0, 2)

    def unfold(self, rows: Tensor) -> Tensor:
        return rows.view(-1, self.streams, self.chunks, *rows.shape[1:])

    def groups(self) -> list[tuple[int, int]]:
        return [(i, min(i + GROUP, self.chunks)) for i in range(0, self.chunks, GROUP)]


def prompt_of_chunk(change: Tensor, chunks: int) -> Tensor:
    """int64 [b, n]: 0 before chunk `change` [b], 1 from it on."""
    return (torch.arange(chunks) >= change[:, None]).long()


def _group_mask(layout: Layout, low: int, high: int, change: Tensor) -> Tensor:
    """bool [b, 1, q, k]: what queries (s, high - low, t) may see of keys (prompts, history up to
    `high`, own group of each copy)."""
    config = layout.config
    size, t = high - low, config.chunk_tokens
    chunk = torch.arange(low, high).repeat(layout.streams)
    stream = torch.arange(layout.streams).repeat_interleave(size)
    prompt = prompt_of_chunk(change, layout.chunks)[:, chunk]
    sees_prompt = F.one_hot(prompt, PROMPTS).bool().repeat_interleave(config.prefix_tokens, 2)
    parts = [sees_prompt]
    if layout.history:
        past = torch.arange(high)
        own = (past == chunk[:, None]) & (stream == 0)[:, None]
        seen = (past < chunk[:, None]) | own
        parts.append(seen.repeat_interleave(t, 1).expand(len(change), -1, -1))
    first = int(layout.history)
    copies, places = stream[stream >= first], chunk[stream >= first]
    same = (copies == stream[:, None]) & (places == chunk[:, None])
    parts.append(same.repeat_interleave(t, 1).expand(len(change), -1, -1))
    return torch.cat(parts, dim=2).repeat_interleave(t, 1)[:, None]


def clip_attention(
    layout: Layout, prefix: Sequence[tuple[Tensor, Tensor]], change: Tensor
) -> Attend:
    """The attention of one batch of clips; `prefix` per layer keys and values of both prompts
    [b, PROMPTS * prefix_tokens, h, e], `change` int64 [b] the chunk at which the second starts."""
    starts = torch.arange(layout.chunks) * layout.config.chunk_frames
    angles = chunk_angles(layout.config, starts).flatten(0, 1)
    cos, sin = angles.cos().float(), angles.sin().float()
    masks: list[Tensor] = []
    for low, high in layout.groups():
        seen = _group_mask(layout, low, high, change)
        masks.append(torch.zeros(seen.shape, dtype=torch.bfloat16).masked_fill_(~seen, -torch.inf))

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        shape = (-1, layout.streams, layout.chunks * q.shape[1], *q.shape[2:])
        q4, k4 = (rotate(x.view(shape), cos, sin).to(torch.bfloat16) for x in (q, k))
        q4, k4, v4 = (layout_view(x, layout) for x in (q4, k4, v.to(torch.bfloat16).view(shape)))
        pk, pv = (x.to(torch.bfloat16) for x in prefix[layer])
        out = [
            _attend_group(layout, low, high, (q4, k4, v4), (pk, pv), mask)
            for (low, high), mask in zip(layout.groups(), masks, strict=True)
        ]
        return torch.cat(out, dim=2).view(q.shape)

    return attend


def layout_view(x: Tensor, layout: Layout) -> Tensor:
    """[b, s, n * t, h, e] -> [b, s, n, t, h, e]."""
    return x.view(*x.shape[:2], layout.chunks, -1, *x.shape[3:])


def _attend_group(
    layout: Layout,
    low: int,
    high: int,
    qkv: tuple[Tensor, Tensor, Tensor],
    prefix: tuple[Tensor, Tensor],
    mask: Tensor,
) -> Tensor:
    """Attention of chunks low..high of all streams -> [b, s, high - low, t, h, e]."""
    q = qkv[0][:, :, low:high]
    first = int(layout.history)
    keys = []
    for x, pre in zip(qkv[1:], prefix, strict=True):
        past = [x[:, 0, :high].flatten(1, 2)] if layout.history else []
        own = x[:, first:, low:high].flatten(1, 3)
        keys.append(torch.cat([pre, *past, own], dim=1).transpose(1, 2))
    flat = (q.flatten(1, 3) * q.shape[-1] ** -0.5).transpose(1, 2)
    weights = (torch.matmul(flat, keys[0].transpose(2, 3)) + mask).softmax(-1)
    return torch.matmul(weights, keys[1]).transpose(1, 2).reshape(q.shape)
