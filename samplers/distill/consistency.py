"""The few-step stage: losses of a student that serves in one to four steps.

What it is: two losses over clips whose history is partly the student's own output, so that it
learns to come back to the path: flow matching at the serving times with true targets
(`resampled_loss`), and consistency distillation (`consistency_loss`: one midpoint step of the
guided teacher, then the student's own prediction as the target). What it is not: the sampler.

On Gaussian data four midpoint steps lose 1 % of the spread where eight Euler steps lose a third,
which would be blur. Sources: arXiv 2512.15702 (own output as history), 2303.01469 (distillation),
2310.14189 (the loss over whole vectors), 2207.12598 (guidance).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from onbeat.models.toybox.text import NULL, PAD
from onbeat.samplers.distill.data import Clips
from onbeat.samplers.distill.losses import (
    AUDIO_SHARE,
    HISTORY_SHARE,
    Extra,
    draw,
    history_times,
    latents,
    noise_like,
    velocity_loss,
    weights,
)
from onbeat.samplers.distill.networks import Both, Networks, Prompts, encode, mix, predict, shifted

GRID = 4
"""Intervals of the teacher's path; holds the serving grids of 1, 2 and 4 steps."""
HUBER = 0.03
"""Root-mean-square error below which the loss turns quadratic."""
CONTEXT_NOISE = 0.02
SERVING_SHARE = 0.6
"""Of draws, those at one of the four serving times."""
LEVEL_SHIFT = 0.6
"""Of the times from which a history is made again (arXiv 2512.15702)."""
MOST_ROUNDS = 2
"""Of own output upon own output in a history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What the student is asked to follow."""

    guidance: float = 1.75
    """Of the picture: 1 is the plain teacher."""
    own_history: float = 0.0
    """Share of pieces whose history is the student's own output."""
    distil: float = 0.0
    """Share of pieces that follow the teacher's path; the others learn from the data."""


def euler(x: Both, x0: Both, t: Both, s: Both) -> Both:
    """From time t to s <= t along the line to x0: x_s = x0 + (s / t) (x_t - x0)."""
    return {k: torch.lerp(x0[k], x[k], (s[k] / t[k])[..., None, None]) for k in x}


def midpoint(x: Both, half: Both, x0: Both, times: tuple[Both, Both, Both]) -> Both:
    """From time t to s with the velocity at `half`, where x0 was predicted; times are t, the time
    of `half`, and s: x_s = x_t + (s - t) (x_half - x0) / t_half."""
    t, m, s = times
    scale = {k: ((s[k] - t[k]) / m[k])[..., None, None] for k in x}
    return {k: x[k] + scale[k] * (half[k] - x0[k]) for k in x}


def huber(error: Tensor) -> Tensor:
    """sqrt(e^2 + c^2) - c of root-mean-square errors, given their squares."""
    return (error + HUBER**2).sqrt() - HUBER


def consistency_error(got: Both, want: Both, token_weights: Both, first: int) -> Tensor:
    """Loss over whole chunks [b, s, n, t, d] of the streams from `first` on."""
    total = torch.zeros(())
    for name, share in (("audio", AUDIO_SHARE), ("video", 1.0)):
        squares = (got[name] - want[name])[:, first:].square().mean(-1)
        total = total + share * huber((squares * token_weights[name]).mean(-1)).mean()
    return total


def empty_text(text: Tensor) -> Tensor:
    """The empty prompt in the shape of `text` [b, 2, slots, pieces]."""
    empty = torch.full_like(text, PAD)
    empty[:, :, 0, 0] = NULL
    return empty


def guided(teacher: Networks, clips: Clips, noisy: Both, times: Both, guidance: float) -> Both:
    """The teacher's x0, its picture pushed from the empty prompt's towards the prompt's."""
    history = times["video"].shape[2] > 1
    own = predict(teacher, _encoded(teacher, clips.text, clips), noisy, times, history=history)
    if guidance == 1.0:
        return own
    empty = _encoded(teacher, empty_text(clips.text), clips)
    plain = predict(teacher, empty, noisy, times, history=history)
    return own | {"video": torch.lerp(plain["video"], own["video"], guidance)}


def teacher_step(
    teacher: Networks, clips: Clips, x: Both, t: Both, s: Both, guidance: float
) -> Both:
    """The teacher's path from t to s; only the deciding evaluation is guided."""
    history = t["video"].shape[2] > 1
    first = predict(teacher, _encoded(teacher, clips.text, clips), x, t, history=history)
    m = {k: (t[k] + s[k]) / 2 for k in t}
    half = euler(x, first, t, m)
    return midpoint(x, half, guided(teacher, clips, half, m, guidance), (t, m, s))


def _encoded(nets: Networks, text: Tensor, clips: Clips) -> Prompts:
    with torch.autocast("cpu", torch.bfloat16):
        return encode(nets, text, clips.change)


def _times(nets: Networks, past: Tensor | None, u: Tensor) -> Both:
    """Times [b, s, n] of copies at grid positions u, after the history's own times."""
    times = {m.name: shifted(u, m.shift) for m in nets.config.spec().modalities}
    if past is None:
        return times
    return {name: torch.cat([past, t], dim=1) for name, t in times.items()}


def _with_history(past: Both | None, x: Both) -> Both:
    """Replaces stream 0 of `x` by `past` [b, 1, n, t, d]."""
    if past is None:
        return x
    return {k: torch.cat([past[k], x[k][:, 1:]], dim=1) for k in x}


def history_levels(b: int, n: int, generator: torch.Generator) -> Tensor:
    """[b, 1, n] times from which a history is made again, one for a clip: sigmoid of a normal,
    moved towards the clean end by LEVEL_SHIFT."""
    normal = torch.randn(b, 1, 1, generator=generator)
    return (normal + math.log(LEVEL_SHIFT)).sigmoid().expand(b, 1, n)


@torch.no_grad()
def own_output(nets: Networks, clips: Clips, rounds: int, generator: torch.Generator) -> Both:
    """Every chunk noised to a level and denoised by the student, [b, 1, n, t, d]: in the first
    round after true history, in each further round after the output of the round before, so that
    errors add up. It has the student's errors and still fits the chunks that follow."""
    prompts = _encoded(nets, clips.text, clips)
    b, n = clips.video.shape[:2]
    past = torch.full((b, 1, n), CONTEXT_NOISE)
    level = history_levels(b, n, generator)
    true = made = latents(clips, 1)
    for _ in range(rounds):
        noise = noise_like(true, generator)
        history = {k: mix(made[k], noise[k], past) for k in made}
        noise = noise_like(true, generator)
        x = {k: torch.cat([history[k], mix(true[k], noise[k], level)], dim=1) for k in true}
        times = {k: torch.cat([past, level], dim=1) for k in true}
        made = {k: v[:, 1:] for k, v in predict(nets, prompts, x, times, history=True).items()}
    return made


def resampled_loss(
    nets: Networks,
    recipe: Recipe,
    clips: Clips,
    copies: int,
    generator: torch.Generator,
    extra: Extra | None = None,
) -> Tensor:
    """Flow matching at the serving times, with true targets after the student's own output."""
    d = draw(nets, clips, copies, generator, SERVING_SHARE)
    noisy = {k: mix(d.clean[k], d.noise[k], d.times[k]) for k in d.clean}
    own = d.history and float(torch.rand((), generator=generator)) < recipe.own_history
    if own:
        rounds = int(torch.randint(1, MOST_ROUNDS + 1, (), generator=generator))
        mine = own_output(nets, clips, rounds, generator)
        past = {k: t[:, :1] for k, t in d.times.items()}
        noisy = _with_history({k: mix(mine[k], d.noise[k][:, :1], past[k]) for k in mine}, noisy)
    got = predict(nets, encode(nets, clips.text, clips.change), noisy, d.times, history=d.history)
    share = 0.0 if own else HISTORY_SHARE
    loss = velocity_loss(got, d, weights(clips), share)
    return loss if extra is None else loss + extra(got["video"], d, clips)


def consistency_loss(
    nets: Networks,
    teacher: Networks,
    recipe: Recipe,
    clips: Clips,
    copies: int,
    generator: torch.Generator,
) -> Tensor:
    """The student at time t against itself at the teacher's next time s, which at s = 0 is x_s. The
    teacher and the target see true history, the student perhaps its own output."""
    b, n = clips.video.shape[:2]
    history = n > 1
    first = int(history)
    k = torch.randint(1, GRID + 1, (b, copies, n), generator=generator)
    past = None
    if history:
        past = history_times(b, n, generator)
    t, s = _times(nets, past, k / GRID), _times(nets, past, (k - 1) / GRID)
    clean = latents(clips, copies + first)
    noise = noise_like(clean, generator)
    x_t = {name: mix(clean[name], noise[name], t[name]) for name in clean}
    with torch.no_grad():
        x_s = teacher_step(teacher, clips, x_t, t, s, recipe.guidance)
        want = predict(nets, _encoded(nets, clips.text, clips), x_s, s, history=history)
    x_in = x_t
    if history and float(torch.rand((), generator=generator)) < recipe.own_history:
        rounds = int(torch.randint(1, MOST_ROUNDS + 1, (), generator=generator))
        mine = own_output(nets, clips, rounds, generator)
        assert past is not None
        redone = {m: mix(mine[m], noise[m][:, :1], past) for m in mine}
        x_in = _with_history(redone, x_t)
    got = predict(nets, _encoded(nets, clips.text, clips), x_in, t, history=history)
    return consistency_error(got, want, weights(clips), first)
