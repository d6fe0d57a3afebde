"""Policy gradients on toybox: rollouts, rewards within groups, and the loss that follows them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from onbeat.models.toybox.attributes import AttributeNet
from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.concepts import MOTIONS
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.physics import Law, position
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.samplers.distill.cover import CoverNet
from onbeat.samplers.distill.grpo import (
    Group,
    RewardLog,
    group_loss,
    predictions,
    prompts_of_step,
    roll_groups,
)
from onbeat.samplers.distill.networks import Networks
from onbeat.samplers.distill.rewards import Judge, evenness, motion_share
from onbeat.samplers.distill.samples import served
from onbeat.samplers.likelihood import log_prob, step_mean

CONFIG = ToyboxConfig(layers=2, width=64, heads=2, condition_rank=8)
CHUNKS = 3


def networks() -> Networks:
    torch.manual_seed(0)
    nets = Networks(CONFIG)
    for name, p in nets.denoiser.named_parameters():
        if name.endswith(("out.weight", "down.weight")):
            torch.nn.init.normal_(p, std=0.05)
    return nets


def groups(nets: Networks, samples: int = 4) -> list[Group]:
    torch.manual_seed(1)
    codecs = VideoCodec().eval(), AudioCodec().eval()
    judge = Judge(attributes=AttributeNet(), cover=CoverNet())
    said = prompts_of_step(0, 0, 2)
    return roll_groups(served(nets, codecs), judge, said, samples, seed=5, chunks=CHUNKS)


def track(motion: str, frames: int = 44) -> tuple[np.ndarray, np.ndarray]:
    law = Law(motion=motion, size="big", radius=0.22, phase=(0.1, 0.3), drift=0.2, home=0.5)
    x, y, factor = position(law, np.arange(frames) / 20)
    area = np.pi * (law.radius * factor) ** 2
    return np.stack([x, y], axis=1).astype(np.float32), area.astype(np.float32)


@pytest.mark.parametrize("motion", MOTIONS)
def test_a_true_motion_is_rewarded_and_no_other_is(motion: str) -> None:
    shares = {asked: motion_share(*track(motion), asked) for asked in MOTIONS}
    assert shares.pop(motion) == 1.0 and not any(shares.values())


def test_hops_between_chunks_are_uneven() -> None:
    smooth = torch.from_numpy(track("roll")[0])
    hopping = smooth[torch.arange(len(smooth)) // 4 * 4]
    one, other = evenness(torch.stack([smooth, hopping])).tolist()
    assert one > -0.1 and other < -1.0


def test_training_sees_what_the_served_model_did() -> None:
    """The mean of each noisy step, worked out again with gradients, is that of the rollout: what is
    left of the noise has its spread, and the two agree to bfloat16."""
    nets = networks()
    group = groups(nets)[0]
    with torch.no_grad():
        found = predictions(nets, group)
    for walk, mine in zip(group.walks, found, strict=True):
        left = walk.after[0].latents["video"] - step_mean(walk.before, mine)["video"][0]
        assert float(left.std()) == pytest.approx(0.75, rel=0.05)  # of t = 0.75
        x0 = torch.stack([s.x0["video"] for s in walk.after if s.x0 is not None])
        torch.testing.assert_close(mine["video"], x0, atol=0.05, rtol=0.05)


def test_better_clips_become_likelier_than_worse_ones() -> None:
    nets, reference = networks(), networks().requires_grad_(False)
    group = groups(nets)[0]
    sign = torch.tensor([1.0, 1.0, -1.0, -1.0])
    group = replace(group, advantage=sign)

    def gap() -> float:
        with torch.no_grad():
            both = zip(group.walks, predictions(nets, group), strict=True)
            logs = [log_prob(w.before, x, w.after)["video"] for w, x in both]
        return float((torch.stack(logs).mean(0) * sign).sum())

    before = gap()
    optimizer = torch.optim.SGD(nets.denoiser.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        group_loss(nets, reference, group).backward()
        optimizer.step()
    assert gap() > before


def test_advantages_are_taken_within_a_prompt() -> None:
    made = groups(networks())
    assert [len(g.advantage) for g in made] == [4, 4]
    for group in made:
        assert abs(float(group.advantage.mean())) < 0.5 and len(group.walks) == CHUNKS


def test_mean_rewards_are_told_once() -> None:
    log, made = RewardLog(), groups(networks())
    assert log.take() == {}
    log.add(made[:1])
    log.add(made[1:])
    told = log.take()
    assert set(told) == {"reward_pictured", "reward_motion", "reward_even"} and log.take() == {}
    both = torch.stack([g.rewards["even"] for g in made])
    assert told["reward_even"] == pytest.approx(float(both.mean()))


def test_prompts_differ_by_step_and_repeat_by_seed() -> None:
    one, again, other = (prompts_of_step(0, step, 3) for step in (1, 1, 2))
    assert [s.prompt for s in one] == [s.prompt for s in again] != [s.prompt for s in other]
