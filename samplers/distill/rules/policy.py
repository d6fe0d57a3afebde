"""Policy gradients on few-step samplers: groups of samples of one prompt, judged by a reward.

Every step of a sampler but the last is a Gaussian whose mean the network decides
(`onbeat.samplers.likelihood`), so a sample is a walk of a policy and its log-probability has a
gradient. Rows are `ChunkState`s; how they were rolled out, and the rewards, are the caller's. A row
whose step adds no noise drops out of every loss. Sources: Shao et al., GRPO (2024); RAVEN (2026),
CM-GRPO (the implicit target).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from onbeat.samplers.consistency import step_rows
from onbeat.samplers.likelihood import log_prob, score, step_mean, step_std
from onbeat.samplers.state import ChunkState

Latents = Mapping[str, Tensor]
Predict = Callable[[Sequence[ChunkState]], Latents]
"""The network's outputs for rows, as `step_rows` takes them."""

ADVANTAGE_CLIP = 5.0
IMPLICIT_SCALE = 100.0
_LEAST_STD = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Walk:
    """One step of rows that were rolled out: `after` is `before` one step on."""

    before: Sequence[ChunkState]
    after: Sequence[ChunkState]

    @property
    def noisy(self) -> bool:
        """Whether any row's step added noise: only then is there something to learn from it."""
        return any(bool((std > 0).any()) for std in step_std(self.before).values())


@torch.no_grad()
def roll_out(states: Sequence[ChunkState], predict: Predict) -> list[Walk]:
    """All steps of rows with equal step counts, each kept."""
    walks, rows = [], list(states)
    while not rows[0].done:
        after = step_rows(rows, predict(rows))
        walks.append(Walk(before=rows, after=after))
        rows = after
    return walks


def advantages(rewards: Tensor, clip: float = ADVANTAGE_CLIP) -> Tensor:
    """Rewards [groups, samples of one prompt] -> (R - mean) / std of its group, within +-clip. A
    group whose rewards are all alike teaches nothing: 0."""
    centred = rewards - rewards.mean(1, keepdim=True)
    std = rewards.std(1, correction=0, keepdim=True)
    alike = std < _LEAST_STD
    return torch.where(alike, 0.0, centred / std.clamp(min=_LEAST_STD)).clamp(-clip, clip)


def joint_advantages(
    rewards: Mapping[str, Tensor], weights: Mapping[str, float], clip: float = ADVANTAGE_CLIP
) -> Tensor:
    """Several rewards, each [groups, samples]: made advantages first and then summed with weights,
    so that no reward wins by its scale. Clipped before and after the sum."""
    parts = [weights[name] * advantages(value, clip) for name, value in rewards.items()]
    return torch.stack(parts).sum(0).clamp(-clip, clip)


def log_ratio(walk: Walk, predictions: Latents, old: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """log p / p_old of the step per number of the latents: per modality float64 [r]. The mean and
    not the sum, or thousands of numbers would make every ratio 0 or infinite."""
    now = log_prob(walk.before, predictions, walk.after)
    sizes = {name: predictions[name][0].numel() for name in now}
    return {name: (value - old[name]) / sizes[name] for name, value in now.items()}


def policy_loss(
    walk: Walk,
    predictions: Latents,
    advantage: Tensor,
    old: Mapping[str, Tensor],
    clip: float = 0.2,
) -> Tensor:
    """-min(ratio A, clip(ratio, 1 +- clip) A), mean of rows, sum of modalities. advantage: [r];
    old: `log_prob` of the walk under the weights that made it. Source: Schulman et al. (2017).
    """
    parts = []
    for ratio in log_ratio(walk, predictions, old).values():
        gain = advantage.to(ratio)
        free, held = ratio.exp(), ratio.exp().clamp(1.0 - clip, 1.0 + clip)
        parts.append(-torch.minimum(free * gain, held * gain).mean())
    return torch.stack(parts).sum()


def implicit_target_loss(
    walk: Walk, predictions: Latents, advantage: Tensor, scale: float = IMPLICIT_SCALE
) -> Tensor:
    """The same gradient as a regression: squares to prediction + A / 2 times the gradient of the
    step's log-probability by the prediction, which is a(s) (x_s - mean) / std^2 for a network that
    predicts x0. Its gradient is scale / numbers in the latents times that of -A log p.

    advantage: [r]. Raises ValueError for samplers that clip x0. Source: RAVEN (2026), CM-GRPO.
    """
    parts = []
    for name, uphill in score(walk.before, predictions, walk.after).items():
        table = [s.samplers[name].table[s.step] for s in walk.before]
        if any(math.isfinite(row.clip) for row in table):
            raise ValueError(f"clip of {name} is finite; allowed: a sampler that does not clip")
        slope = torch.tensor([row.next_clean * row.clean_prediction for row in table])
        rate = (0.5 * advantage * slope).to(uphill)[:, None, None]
        answer = predictions[name]
        target = (answer + rate * uphill).detach()
        parts.append(scale * (answer - target).square().mean())
    return torch.stack(parts).sum()


def kernel_kl(walk: Walk, predictions: Latents, reference: Latents) -> Tensor:
    """KL of the step under `predictions` from the step under `reference`, per number, mean of rows,
    sum of modalities: |mean - mean_ref|^2 / (2 std^2), as both have one std."""
    means, others = step_mean(walk.before, predictions), step_mean(walk.before, reference)
    parts = []
    for name, std in step_std(walk.before).items():
        safe = torch.where(std > 0, std, torch.ones_like(std))[:, None, None]
        apart = ((means[name] - others[name].detach()) / safe).square().mean((1, 2)) / 2.0
        parts.append(torch.where(std > 0, apart, torch.zeros_like(apart)).mean())
    return torch.stack(parts).sum()


def pick_walk(walks: Sequence[Walk], generator: torch.Generator) -> Walk:
    """One noisy step at random (RAVEN trains one a group); the last one has no density.

    Raises ValueError if no step adds noise.
    """
    noisy = [walk for walk in walks if walk.noisy]
    if not noisy:
        raise ValueError(f"walks has {len(walks)} steps without noise; allowed: at least one with")
    return noisy[int(torch.randint(len(noisy), (), generator=generator))]
