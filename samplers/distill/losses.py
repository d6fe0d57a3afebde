"""The losses of toybox: flow matching through x0, each modality by its own count.

What it is: times, noise and weights of one batch, and its loss. What it is not: an optimiser.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from onbeat.samplers.distill.data import Clips
from onbeat.samplers.distill.networks import Both, Networks, encode, mix, predict, shifted

AUDIO_SHARE = 0.5
"""Weight of the sound's loss beside the picture's."""
HISTORY_SHARE = 0.2
"""Weight of the history's own loss, which is nearly clean."""
LEAST_TIME = 0.3
"""The velocity weight 1 / t^2 stops growing below this time."""
PURE_NOISE = 0.12
"""Share of draws at t = 1, where every chunk starts."""
SERVING_TIMES = 4
LEAST_HISTORY_NOISE, MOST_HISTORY_NOISE = 0.005, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Clean and noisy latents [b, s, n, t, d] and times [b, s, n] of a batch."""

    clean: Both
    noise: Both
    times: Both
    grid: Tensor
    """[b, s, n] position u on the schedule's grid; of the history, its own time."""
    history: bool


def latents(clips: Clips, streams: int) -> Both:
    return {
        "audio": clips.audio[:, None].expand(-1, streams, -1, -1, -1),
        "video": clips.video[:, None].expand(-1, streams, -1, -1, -1),
    }


def weights(clips: Clips) -> Both:
    """[b, 1, n, t] with mean 1."""
    both = {"audio": clips.audio_weight, "video": clips.video_weight}
    return {name: (w / w.mean())[:, None] for name, w in both.items()}


def noise_like(clean: Both, generator: torch.Generator) -> Both:
    return {n: torch.randn(x.shape, generator=generator) for n, x in clean.items()}


def grid_positions(
    b: int, copies: int, n: int, generator: torch.Generator, serving: float = 0.0
) -> Tensor:
    """u in (0, 1], stratified over the copies of a chunk, some exactly 1; a share of `serving` is
    rounded up to the four serving times."""
    strata = torch.rand(b, copies, n, generator=generator).argsort(1)
    u = (strata + torch.rand(b, copies, n, generator=generator)) / copies
    served = torch.rand(b, copies, n, generator=generator) < serving
    u = torch.where(served, (u * SERVING_TIMES).ceil() / SERVING_TIMES, u)
    pure = torch.rand(b, copies, n, generator=generator) < PURE_NOISE
    return u.masked_fill(pure, 1.0)


def history_times(b: int, n: int, generator: torch.Generator) -> Tensor:
    """[b, 1, n] noise levels of a history: mostly low, never 0."""
    low = torch.rand(b, 1, n, generator=generator).square()
    return (MOST_HISTORY_NOISE * low).clamp(min=LEAST_HISTORY_NOISE)


def draw(
    nets: Networks,
    clips: Clips,
    copies: int,
    generator: torch.Generator,
    serving: float = 0.0,
) -> Draw:
    """Random times and noise: a history (if there is more than one chunk) and `copies`."""
    b, n = clips.video.shape[:2]
    history = n > 1
    u = grid_positions(b, copies, n, generator, serving)
    if history:
        u = torch.cat([history_times(b, n, generator), u], dim=1)
    times = {m.name: shifted(u, m.shift) for m in nets.config.spec().modalities}
    if history:
        times = {k: torch.cat([u[:, :1], t[:, 1:]], dim=1) for k, t in times.items()}
    clean = latents(clips, u.shape[1])
    noise = noise_like(clean, generator)
    return Draw(clean=clean, noise=noise, times=times, grid=u, history=history)


def velocity_loss(
    got: Both, d: Draw, token_weights: Both, history_share: float = HISTORY_SHARE
) -> Tensor:
    """Mean of squared velocity errors (x0 errors over t), weighted by token and stream."""
    total = torch.zeros(())
    for name, share in (("audio", AUDIO_SHARE), ("video", 1.0)):
        error = (got[name] - d.clean[name]).square().mean(-1)
        scale = d.times[name].clamp(min=LEAST_TIME).square().reciprocal()[..., None]
        per_stream = (error * scale * token_weights[name]).mean((0, 2, 3))
        if d.history:
            total = total + share * history_share * per_stream[0]
            per_stream = per_stream[1:]
        total = total + share * per_stream.mean()
    return total


Extra = Callable[[Tensor, Draw, Clips], Tensor]
"""A loss beside the velocity's: predicted video x0 [b, s, n, t, d], the draw and its clips."""


def teacher_loss(
    nets: Networks,
    clips: Clips,
    copies: int,
    generator: torch.Generator,
    extra: Extra | None = None,
) -> Tensor:
    """Flow matching of a batch of clips."""
    d = draw(nets, clips, copies, generator)
    prompts = encode(nets, clips.text, clips.change)
    noisy = {k: mix(d.clean[k], d.noise[k], d.times[k]) for k in d.clean}
    got = predict(nets, prompts, noisy, d.times, history=d.history)
    loss = velocity_loss(got, d, weights(clips))
    return loss if extra is None else loss + extra(got["video"], d, clips)
