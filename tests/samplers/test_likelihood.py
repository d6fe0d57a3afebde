"""Density and score of a step: against torch's normal distribution, and against autograd."""

import pytest
import torch
from torch import Tensor

from onbeat.samplers import families
from onbeat.samplers.consistency import latents_of, start_rows, step_rows
from onbeat.samplers.likelihood import log_prob, score, step_mean, step_std
from onbeat.samplers.state import ChunkState


class Tokens:
    name, tokens, dim, shift = "video", 3, 5, 1.0


def rows() -> tuple[list[ChunkState], Tensor]:
    """Rows that take noise, with one at its last step and one that takes none."""
    samplers = [
        families.raven(4),
        families.lcm(4),
        families.tcd(4),
        families.consistency_model(),
        families.rectified_flow(1),
        families.flow_map(2),
    ]
    many = range(len(samplers))
    states = start_rows([Tokens()], many, many, many, [{"video": s} for s in samplers])
    return states, torch.randn(len(many), 3, 5, generator=torch.Generator().manual_seed(0))


def test_density_of_the_step() -> None:
    states, prediction = rows()
    after = step_rows(states, {"video": prediction})
    mean = step_mean(states, {"video": prediction})["video"]
    std = step_std(states)["video"]
    x = latents_of(after)["video"]
    values = log_prob(states, {"video": prediction}, after)["video"]
    for i in range(4):
        normal = torch.distributions.Normal(mean[i].double(), std[i].double())
        assert values[i].item() == pytest.approx(normal.log_prob(x[i].double()).sum().item())
    assert values[4:].tolist() == [0.0, 0.0] and std[4:].tolist() == [0.0, 0.0]
    assert torch.allclose(mean[4:], x[4:], atol=1e-6)


def test_score_is_the_gradient_by_the_mean() -> None:
    states, prediction = rows()
    after = step_rows(states, {"video": prediction})
    prediction.requires_grad_()
    log_prob(states, {"video": prediction}, after)["video"].sum().backward()
    scores = score(states, {"video": prediction}, after)["video"].detach()
    assert prediction.grad is not None
    for i, state in enumerate(states):
        step = state.samplers["video"].table[0]
        chained = scores[i] * step.next_clean * step.clean_prediction  # mean by the prediction
        assert torch.allclose(prediction.grad[i], chained, rtol=1e-4, atol=1e-6)
    assert not scores[4:].any()


def test_a_better_prediction_is_more_likely() -> None:
    states, prediction = rows()
    after = step_rows(states[:1], {"video": prediction[:1]})
    good = log_prob(states[:1], {"video": prediction[:1]}, after)["video"]
    bad = log_prob(states[:1], {"video": prediction[:1] + 100.0}, after)["video"]
    assert good > bad


def test_only_neighbouring_states() -> None:
    states, prediction = rows()
    with pytest.raises(AssertionError):
        log_prob(states, {"video": prediction}, states)
