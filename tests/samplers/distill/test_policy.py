"""Policy gradients: closed forms of the gradient, a reward that rises, an anchor that holds."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from onbeat.samplers import families
from onbeat.samplers.consistency import latents_of, start_rows, step_rows
from onbeat.samplers.distill.rules import policy
from onbeat.samplers.distill.rules.policy import (
    Predict,
    Walk,
    advantages,
    implicit_target_loss,
    joint_advantages,
    kernel_kl,
    pick_walk,
    policy_loss,
    roll_out,
)
from onbeat.samplers.likelihood import log_prob
from onbeat.samplers.sampler import Sampler
from onbeat.samplers.state import ChunkState


class Tokens:
    name, tokens, dim, shift = "video", 1, 3, 1.0


SIZE = 3
TWO_STEPS = families.rectified_flow(2)


def begin(rows: int, seed: int, sampler: Sampler = TWO_STEPS) -> list[ChunkState]:
    many = range(rows)
    return start_rows([Tokens()], [seed] * rows, many, [0] * rows, [{"video": sampler}] * rows)


def constant(mu: Tensor) -> Predict:
    """A network that predicts x0 = mu, whatever it sees."""
    return lambda states: {"video": mu.expand(len(states), 1, SIZE)}


def first_walk(rows: int, seed: int, mu: Tensor) -> Walk:
    return roll_out(begin(rows, seed), constant(mu.detach()))[0]


def gradient(loss: Tensor, of: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(loss, of)
    return found


def test_advantages_are_standardised_in_their_group_and_clipped() -> None:
    rewards = torch.tensor([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])
    want = torch.tensor([[-(1.5**0.5), 0.0, 1.5**0.5], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(advantages(rewards), want)
    lonely = torch.zeros(1, 100).index_fill(1, torch.tensor([7]), 1.0)
    assert float(advantages(lonely).max()) == 5.0


def test_rewards_are_made_alike_before_they_are_summed() -> None:
    one = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    both = {"small": one, "large": 1000.0 * one.flip(1)}
    torch.testing.assert_close(
        joint_advantages(both, {"small": 1.0, "large": 1.0}), torch.zeros(1, 4)
    )


def check_gradient() -> None:
    """d/dmu of -A log p is -A a(s) (x_s - a(s) mu) / b(s)^2 with a = b = 1/2 at s = 1/2."""
    mu = torch.tensor([0.2, -0.1, 0.4], requires_grad=True)
    walk = first_walk(5, 3, mu)
    gain = torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0])
    x = latents_of(walk.after)["video"][:, 0]
    uphill = 0.5 * (x - 0.5 * mu.detach()) / 0.25
    want = -(gain[:, None] * uphill).mean(0) / SIZE
    predictions = constant(mu)(walk.before)
    old = log_prob(walk.before, {"video": predictions["video"].detach()}, walk.after)
    by_ratio = gradient(policy_loss(walk, predictions, gain, old), mu)
    torch.testing.assert_close(by_ratio, want, rtol=1e-5, atol=1e-6)
    by_target = gradient(implicit_target_loss(walk, predictions, gain, 100.0), mu)
    torch.testing.assert_close(by_target, 100.0 * want, rtol=1e-4, atol=1e-4)


def test_the_gradient_is_that_of_the_log_probability() -> None:
    check_gradient()


def check_clipping() -> None:
    """Past the clip in the direction of its gain a row has no gradient; against it, it has."""
    mu = torch.zeros(3, requires_grad=True)
    walk = first_walk(1, 4, mu)
    predictions = constant(mu)(walk.before)
    now = log_prob(walk.before, predictions, walk.after)
    far = {"video": now["video"].detach() - 5.0 * SIZE}
    held = gradient(policy_loss(walk, predictions, torch.tensor([1.0]), far), mu)
    free = gradient(policy_loss(walk, predictions, torch.tensor([-1.0]), far), mu)
    assert not held.any() and free.all()


def test_the_ratio_is_clipped_only_where_it_has_gone_too_far() -> None:
    check_clipping()


def check_kl() -> None:
    """(a(s) delta)^2 / (2 b(s)^2) per number: 0.5 delta^2 at s = 1/2."""
    mu, reference = torch.tensor([0.3, 0.3, 0.3]), torch.tensor([0.1, 0.3, 0.7])
    walk = first_walk(2, 5, mu)
    got = kernel_kl(walk, constant(mu)(walk.before), constant(reference)(walk.before))
    torch.testing.assert_close(got, 0.5 * (mu - reference).square().mean())


def test_the_anchor_is_the_divergence_of_two_normals() -> None:
    check_kl()


def test_the_last_step_teaches_nothing() -> None:
    mu = torch.zeros(3, requires_grad=True)
    walks = roll_out(begin(4, 6), constant(mu.detach()))
    assert [walk.noisy for walk in walks] == [True, False]
    predictions = constant(mu)(walks[1].before)
    gain = torch.ones(4)
    old = log_prob(walks[1].before, predictions, walks[1].after)
    detached = {name: value.detach() for name, value in old.items()}
    loss = policy_loss(walks[1], predictions, gain, detached)
    other = implicit_target_loss(walks[1], predictions, gain)
    anchor = kernel_kl(walks[1], predictions, constant(mu.detach() + 1.0)(walks[1].before))
    assert not gradient(loss, mu).any() and not gradient(other, mu).any()
    assert float(anchor.detach()) == 0.0
    assert pick_walk(walks, torch.Generator().manual_seed(0)) is walks[0]
    with pytest.raises(ValueError, match="steps without noise"):
        pick_walk(walks[1:], torch.Generator())


def test_a_sampler_that_clips_has_no_implicit_target() -> None:
    states = begin(1, 0, families.consistency_model(clip=1.0))
    predictions = {"video": torch.zeros(1, 1, SIZE)}
    walk = Walk(before=states, after=step_rows(states, predictions))
    with pytest.raises(ValueError, match="does not clip"):
        implicit_target_loss(walk, predictions, torch.ones(1))


def goal_reward(walk: Walk) -> Tensor:
    """Of the state after the first step: how near it is to 1 / 2, which is x0 = 1 on average."""
    return -(latents_of(walk.after)["video"] - 0.5).square().mean((1, 2))


def learn(anchor: float, steps: int = 60) -> Tensor:
    """mu after training from 0 on `goal_reward`, groups of 16."""
    mu = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([mu], lr=0.05)
    for step in range(steps):
        walk = first_walk(16, step, mu)
        gain = advantages(goal_reward(walk)[None])[0]
        predictions = constant(mu)(walk.before)
        loss = implicit_target_loss(walk, predictions, gain, 1.0)
        if anchor:
            start = constant(torch.zeros(3))(walk.before)
            loss = loss + anchor * kernel_kl(walk, predictions, start)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return mu.detach()


def check_learning() -> None:
    free = learn(0.0)
    assert 0.6 < float(free.mean()) < 1.4, free
    held = learn(20.0)
    assert float(held.abs().max()) < 0.25, held


def test_the_reward_rises_and_the_anchor_holds() -> None:
    check_learning()


def test_rolling_out_keeps_every_step() -> None:
    rows: Sequence[ChunkState] = begin(2, 1, families.raven(3))
    walks = roll_out(rows, constant(torch.ones(3)))
    assert [walk.before[0].step for walk in walks] == [0, 1, 2] and walks[-1].after[0].done
    assert walks[0].before[0] is rows[0]
    assert policy.log_ratio(
        walks[0],
        constant(torch.ones(3))(rows),
        log_prob(rows, constant(torch.ones(3))(rows), walks[0].after),
    )["video"].tolist() == [0.0, 0.0]
