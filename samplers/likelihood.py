"""Log-probability and score of a sampler's step, for policy gradients on few-step models.

A step is Gaussian: the next latents have mean next_clean clean + next_x x and standard deviation
`noise`, the same for all elements. Plain torch, so that gradients flow into the predictions; what
is done with them (rewards, clipping, groups) is training and lives elsewhere. A step that adds no
noise (the last one, or stochasticity 0) has no density: its log-probability and its score are 0, so
that it drops out of a sum over steps.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from onbeat.samplers.consistency import latents_of
from onbeat.samplers.state import ChunkState

Latents = Mapping[str, Tensor]


def step_mean(states: Sequence[ChunkState], predictions: Latents) -> dict[str, Tensor]:
    """Mean of each row's next latents: per modality float32 [r, n, d]."""
    means = {}
    for name, x in latents_of(states).items():
        table = [s.samplers[name].table[s.step] for s in states]
        columns = torch.tensor(table, dtype=torch.float64).to(x).T[:, :, None, None]
        clean_x, clean_p, clip, next_x, next_clean, _ = columns
        x = torch.where((clean_x != 0) | (next_x != 0), x, torch.zeros_like(x))
        clean = (clean_x * x + clean_p * predictions[name]).clamp(-clip, clip)
        means[name] = next_clean * clean + next_x * x
    return means


def step_std(states: Sequence[ChunkState]) -> dict[str, Tensor]:
    """Standard deviation of each row's next latents: per modality float32 [r]."""
    return {
        name: torch.tensor(
            [s.samplers[name].table[s.step].noise for s in states],
            dtype=torch.float32,
            device=x.device,
        )
        for name, x in states[0].latents.items()
    }


def log_prob(
    states: Sequence[ChunkState], predictions: Latents, after: Sequence[ChunkState]
) -> dict[str, Tensor]:
    """log p(next latents | latents, predictions) of each row, summed over its elements: per
    modality float64 [r], in nats. `after`: the same rows one step on."""
    deviations, stds = _deviations(states, predictions, after), step_std(states)
    out = {}
    for name, deviation in deviations.items():
        std = stds[name].double()
        safe = torch.where(std > 0, std, torch.ones_like(std))
        squares = (deviation.double() / safe[:, None, None]).square().flatten(1).sum(1)
        size = deviation[0].numel()
        value = -0.5 * squares - size * (safe.log() + 0.5 * math.log(2 * math.pi))
        out[name] = torch.where(std > 0, value, torch.zeros_like(value))
    return out


def score(
    states: Sequence[ChunkState], predictions: Latents, after: Sequence[ChunkState]
) -> dict[str, Tensor]:
    """Gradient of `log_prob` by the step's mean, (next - mean) / std^2: per modality float32
    [r, n, d]. By the next latents it is the negative of this."""
    stds = step_std(states)
    out = {}
    for name, deviation in _deviations(states, predictions, after).items():
        std = stds[name][:, None, None]
        safe = torch.where(std > 0, std, torch.ones_like(std))
        out[name] = torch.where(std > 0, deviation / safe.square(), torch.zeros_like(deviation))
    return out


def _deviations(
    states: Sequence[ChunkState], predictions: Latents, after: Sequence[ChunkState]
) -> dict[str, Tensor]:
    steps = [(a.step, b.step) for a, b in zip(states, after, strict=True)]
    assert all(late == early + 1 for early, late in steps), steps
    means, reached = step_mean(states, predictions), latents_of(after)
    return {name: reached[name] - mean for name, mean in means.items()}
