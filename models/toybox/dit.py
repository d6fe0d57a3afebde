"""The denoiser of toybox: a block-causal transformer over the audio and video tokens of chunks.

What it is: the network from noisy latents, times and a prompt to predictions of the clean latents.
Attention between tokens is handed in, so that training (whole clips under a mask) and serving (rows
over a paged cache) run the same code. What it is not: an attention, a sampler or a reader of files.

Rows hold one chunk each: [r, g, s, w] with g groups of s tokens (the first group is audio, so all
modulation is per group). Sources: adaptive layer norm, arXiv 2212.09748; QK norm, arXiv 2302.05442;
prediction of x0 under a velocity loss, arXiv 2511.13720.
"""

import math
from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.rope import timeless_mask

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q, k, v), each [r, n, h, e] un-rotated -> [r, n, h, e]."""

MIN_TIME = 0.02
"""Below this time the prediction is blended with the input, so that f(x, 0) = x."""
PER_BLOCK = 6
TIME_FEATURES = 64


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """`layer(x)` in the dtype of the layer's weights."""
    return F.linear(x.to(layer.weight.dtype), layer.weight, layer.bias)


def norm(x: Tensor, gain: Tensor | None = None) -> Tensor:
    """Root-mean-square norm over the last axis, float32 for float32 input."""
    return F.rms_norm(x, x.shape[-1:], gain, 1e-6)


class Block(nn.Module):
    """One layer: attention and a squared-ReLU MLP, each scaled, shifted and gated from outside."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.q_gain = nn.Parameter(torch.ones(width // heads))
        self.k_gain = nn.Parameter(torch.ones(width // heads))
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.down.weight)

    def split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """[r, ..., parts * w] -> parts of [r, n, h, e] in float32."""
        shape = (x.shape[0], -1, parts, self.heads, self.q_gain.shape[0])
        return x.float().view(*shape).unbind(2)

    def attention_inputs(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.split(linear(self.qkv, x), 3)
        return norm(q, self.q_gain), norm(k, self.k_gain), v

    def mlp(self, x: Tensor) -> Tensor:
        return linear(self.down, linear(self.up, x).relu_().square())

    def prefix(self, slots: Tensor, gain: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [p, n, h, e] of prompt slots [p, n, w]."""
        width = slots.shape[-1]
        weight = self.qkv.weight[width:]
        k, v = self.split(F.linear((norm(slots) * gain).to(weight.dtype), weight), 2)
        return norm(k, self.k_gain) * mask, v

    def forward(self, x: Tensor, m: Tensor, attend: Callable[..., Tensor]) -> Tensor:
        """x float32 [r, g, s, w], m [6, r, g, 1, w]."""
        scale1, shift1, gate1, scale2, shift2, gate2 = m.unbind(0)
        h = torch.addcmul(shift1, norm(x), scale1)
        a = attend(*self.attention_inputs(h)).reshape(x.shape)
        x = torch.addcmul(x, linear(self.out, a).to(x.dtype), gate1)
        h = torch.addcmul(shift2, norm(x), scale2)
        return torch.addcmul(x, self.mlp(h).to(x.dtype), gate2)


class Conditioner(nn.Module):
    """Times and the pooled prompt to the modulation of all layers, low rank and shared."""

    rates: Tensor

    def __init__(self, config: ToyboxConfig) -> None:
        super().__init__()
        width, rank = config.width, config.condition_rank
        self.layers, self.width = config.layers, width
        self.vectors = config.layers * PER_BLOCK + 2
        self.time = nn.Linear(TIME_FEATURES, width)
        self.text = nn.Linear(width, width)
        self.modality = nn.Parameter(torch.zeros(2, width))
        self.mix = nn.Linear(width, width)
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, self.vectors * width)
        rates = math.pi * 64.0 ** (torch.arange(TIME_FEATURES // 2) / (TIME_FEATURES // 2 - 1)) / 2
        self.register_buffer("rates", rates, persistent=False)
        nn.init.normal_(self.modality, std=0.5)
        nn.init.zeros_(self.up.weight)
        self._reset_bias()

    def _reset_bias(self) -> None:
        """Scales and gates start at one, shifts at zero."""
        block = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0]).repeat(self.layers)
        start = torch.cat([block, torch.tensor([1.0, 0.0])])
        with torch.no_grad():
            self.up.bias.copy_(start.repeat_interleave(self.width))

    def forward(self, times: Tensor, pooled: Tensor) -> Tensor:
        """times float32 [r, 2] (audio, video), pooled [r, w] -> [vectors, r, 2, 1, w]."""
        angles = times[..., None] * self.rates
        waves = torch.cat([angles.cos(), angles.sin()], dim=-1)
        c = linear(self.time, waves) + linear(self.text, pooled)[:, None]
        c = F.silu(c + self.modality.to(c.dtype))
        c = c + F.silu(linear(self.mix, c))
        m = linear(self.up, linear(self.down, c)).float()
        return m.view(*times.shape, self.vectors, 1, self.width).permute(2, 0, 1, 3, 4)


class Denoiser(nn.Module):
    """Predictions of x0 for rows of chunks (see the module)."""

    timeless: Tensor

    def __init__(self, config: ToyboxConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.audio_in = nn.Linear(config.audio_dim, width)
        self.video_in = nn.Linear(config.video_dim, width)
        self.place = nn.Parameter(torch.randn(config.chunk_tokens, width) * 0.3)
        self.conditioner = Conditioner(config)
        blocks = [
            Block(width, config.heads, width * config.mlp_ratio) for _ in range(config.layers)
        ]
        self.blocks = nn.ModuleList(blocks)
        self.prefix_gain = nn.Parameter(torch.ones(config.layers, width))
        self.audio_out = nn.Linear(width, config.audio_dim)
        self.video_out = nn.Linear(width, config.video_dim)
        for out in (self.audio_out, self.video_out):
            nn.init.zeros_(out.weight)
            nn.init.zeros_(out.bias)
        self.register_buffer("timeless", timeless_mask(config), persistent=False)

    def prefix(self, slots: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Per layer the keys and values [p, n, h, e] of prompts' slots [p, n, w]."""
        return [
            cast(Block, block).prefix(slots, gain, self.timeless)
            for block, gain in zip(self.blocks, self.prefix_gain, strict=True)
        ]

    def embed(self, latents: Mapping[str, Tensor]) -> Tensor:
        """-> float32 [r, g, s, w]."""
        audio = linear(self.audio_in, latents["audio"])
        video = linear(self.video_in, latents["video"])
        x = torch.cat([audio, video], dim=1).float() + self.place
        return x.view(x.shape[0], -1, self.config.audio_tokens, self.config.width)

    def forward(
        self,
        latents: Mapping[str, Tensor],
        times: Mapping[str, Tensor],
        pooled: Tensor,
        attend: Attend,
    ) -> dict[str, Tensor]:
        """latents float32 [r, n, d] and times float32 [r] per modality, pooled [r, w] -> x0."""
        x = self.embed(latents)
        both = torch.stack([times["audio"], times["video"]], dim=1)
        m = self.conditioner(both, pooled).split(PER_BLOCK)
        groups = x.shape[1]
        for i, (block, mine) in enumerate(zip(self.blocks, m[:-1], strict=True)):
            x = block(x, per_group(mine, groups), bind(attend, i))
        scale, shift = per_group(m[-1], groups).unbind(0)
        x = torch.addcmul(shift, norm(x), scale).flatten(1, 2)
        n = self.config.audio_tokens
        raw = {
            "audio": linear(self.audio_out, x[:, :n]).float(),
            "video": linear(self.video_out, x[:, n:]).float(),
        }
        return {name: blend(latents[name], raw[name], times[name]) for name in raw}


def per_group(m: Tensor, groups: int) -> Tensor:
    """[..., 2, 1, w] of audio and video -> [..., g, 1, w]: one audio group, then video groups."""
    audio, video = m.split(1, dim=-3)
    return torch.cat([audio, video.expand(*m.shape[:-3], groups - 1, 1, m.shape[-1])], dim=-3)


def bind(attend: Attend, layer: int) -> Callable[..., Tensor]:
    """`attend` of one layer."""
    return lambda q, k, v: attend(layer, q, k, v)


def blend(noisy: Tensor, raw: Tensor, times: Tensor) -> Tensor:
    """The consistency function f(x, t) = x - t v with v = (x - raw) / max(t, MIN_TIME): `raw` from
    MIN_TIME on, the input itself at t = 0. noisy, raw [r, n, d], times [r]."""
    weight = (times / MIN_TIME).clamp(max=1.0)[:, None, None]
    return torch.lerp(noisy, raw, weight)
