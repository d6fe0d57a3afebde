"""Policy gradients on the few-step student (CM-GRPO): groups of clips of one prompt, compared.

What it is: the stage's rollouts (the served model, as it is then), their rewards and advantages,
and the loss of each group: the step that draws noise is made likelier where the clip was better
than its group, all chunks of a clip at once in the layout of training, with a divergence from the
student that the stage began with. What it is not: the rule (rules/policy.py) or the rewards
(rewards.py). Source: RAVEN (2026), CM-GRPO.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from onbeat.models.toybox.attributes import labels_of
from onbeat.models.toybox.model import Toybox
from onbeat.models.toybox.quality_scenes import Said, said_scenes
from onbeat.models.toybox.text import tokenise
from onbeat.samplers.distill.generate import Rolled, rolled_chunks
from onbeat.samplers.distill.loop import Piece, Run, Stage, load_run, new_run, train_loop
from onbeat.samplers.distill.networks import Both, Networks, encode, predict
from onbeat.samplers.distill.rewards import WEIGHTS, Judge, Rewards
from onbeat.samplers.distill.rules.policy import (
    Latents,
    Walk,
    implicit_target_loss,
    joint_advantages,
    kernel_kl,
)
from onbeat.samplers.distill.samples import served, write_samples
from onbeat.samplers.distill.teacher import Codecs, generator_of, start

KINDS = ("audio", "video")
GROUPS, SAMPLES, CHUNKS, STEPS = 4, 12, 6, 2
PEAK = 0.03
"""Of the teacher's learning rates: a policy gradient is mostly noise."""
DIVERGENCE = 3.0
"""Weight of the divergence from the first student; the policy's loss is scaled by 100 (RAVEN)."""
STUDENT = "student.pt"
SCENES_FROM = 500_000
"""Seeds of the prompts; the quality report's are below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Clips of one prompt: noisy steps, the committed history of each chunk, and advantages."""

    text: Tensor
    """int64 [slots, pieces]."""
    walks: Sequence[Walk]
    """One noisy step of each chunk; rows are clips."""
    history: Both
    """As committed, [r, 1, n, t, d]."""
    times: Both
    """Of the history, [r, 1, n]."""
    advantage: Tensor
    """[r]."""
    rewards: Rewards
    """What the advantages were made of, each [r]."""


@dataclass(slots=True)
class RewardLog:
    """Mean rewards since they were last asked for, for the log of the run."""

    _seen: list[Rewards] = field(default_factory=list)

    def add(self, groups: Sequence[Group]) -> None:
        self._seen += [group.rewards for group in groups]

    def take(self) -> dict[str, float]:
        """ "reward_<name>": the mean of each over all clips; empty if there were none."""
        seen, self._seen = self._seen, []
        names = seen[0] if seen else ()
        return {f"reward_{n}": float(torch.cat([r[n] for r in seen]).mean()) for n in names}


def prompts_of_step(seed: int, step: int, groups: int) -> list[Said]:
    """Prompts of one object that name everything, none of them held out."""
    at = SCENES_FROM + 10_000 * seed + step
    return said_scenes(at * 97, groups, held_out=False)


def roll_groups(
    model: Toybox, judge: Judge, said: Sequence[Said], samples: int, seed: int, chunks: int = CHUNKS
) -> list[Group]:
    """`samples` clips of each prompt, all at once, judged within their groups."""
    prompts = [s.prompt for s in said for _ in range(samples)]
    seeds = [seed + i for i in range(len(prompts))]
    with torch.inference_mode():
        rolled = list(rolled_chunks(model, lambda _: prompts, seeds, chunks, STEPS))
        video = torch.stack([_finished(r) for r in rolled], dim=1)
    labels = labels_of([s.prompt for s in said]).repeat_interleave(samples, 0)
    rewards = judge(video.clone(), labels, [s.motion for s in said for _ in range(samples)])
    parts = {name: value.view(len(said), samples) for name, value in rewards.items()}
    advantage = joint_advantages(parts, WEIGHTS)
    return [
        _group(
            s,
            rolled,
            slice(i * samples, (i + 1) * samples),
            advantage[i],
            {name: part[i] for name, part in parts.items()},
        )
        for i, s in enumerate(said)
    ]


def _finished(rolled: Rolled) -> Tensor:
    """Clean video tokens [r, 16, 256] of a chunk."""
    return torch.stack([state.latents["video"] for state in rolled.finished])


def _group(
    said: Said, rolled: Sequence[Rolled], rows: slice, advantage: Tensor, rewards: Rewards
) -> Group:
    walks = [
        Walk(before=r.walks[0].before[rows], after=r.walks[0].after[rows]) for r in rolled
    ]  # with two steps only the first draws noise
    latents, times = zip(*(r.committed for r in rolled), strict=True)
    return Group(
        text=tokenise(said.prompt, 16, 1024),
        walks=walks,
        history={k: torch.stack([x[k][rows] for x in latents], 1)[:, None].clone() for k in KINDS},
        times={k: torch.stack([t[k][rows] for t in times], 1)[:, None].clone() for k in KINDS},
        advantage=advantage,
        rewards=rewards,
    )


def predictions(nets: Networks, group: Group) -> list[Latents]:
    """x0 of the rows of each chunk's noisy step, with gradients: the same function as the served
    model's, in the layout of training."""
    n, rows = len(group.walks), len(group.advantage)
    noisy, times = {}, {}
    for k in KINDS:
        x = torch.stack([torch.stack([s.latents[k] for s in w.before]) for w in group.walks], 1)
        t = torch.tensor([[s.samplers[k].times[s.step] for s in w.before] for w in group.walks])
        noisy[k] = torch.cat([group.history[k], x.clone()[:, None]], dim=1)
        times[k] = torch.cat([group.times[k], t.T[:, None].float()], dim=1)
    text = group.text.expand(rows, 2, -1, -1)
    prompts = encode(nets, text, torch.full((rows,), n))
    got = predict(nets, prompts, noisy, times, history=True)
    return [{k: x[:, 1, i] for k, x in got.items()} for i in range(n)]


def group_loss(nets: Networks, reference: Networks, group: Group) -> Tensor:
    """Mean over chunks of the policy's loss and the divergence from `reference`."""
    mine = predictions(nets, group)
    with torch.no_grad():
        first = predictions(reference, group)
    parts = [
        implicit_target_loss(walk, x, group.advantage) + DIVERGENCE * kernel_kl(walk, x, old)
        for walk, x, old in zip(group.walks, mine, first, strict=True)
    ]
    return torch.stack(parts).mean()


def policy_pieces(
    codecs: Codecs, judge: Judge, reference: Networks, seed: int, log: RewardLog
) -> Callable[[int, Run], list[Piece]]:
    """A piece for each group of a step; the step's clips are made by the networks as they are, and
    their rewards go to `log`."""

    def pieces(step: int, run: Run) -> list[Piece]:
        said = prompts_of_step(seed, step, GROUPS)
        draws = generator_of(seed, step)
        first = int(torch.randint(2**31, (), generator=draws))
        groups = roll_groups(served(run.nets, codecs), judge, said, SAMPLES, first)
        log.add(groups)
        return [partial(group_loss, run.nets, reference, group) for group in groups]

    return pieces


def train_policy(
    codecs: Codecs,
    judge: Judge,
    minutes: float,
    out: Path,
    seed: int,
    *,
    resume: bool,
    student: Path,
    steps: int | None = None,
) -> Run:
    """Improves the checkpoint `student` by its own clips. A copy of it stays in `out` and is what a
    resumed run is compared with."""
    first = out / STUDENT
    if not (resume and first.exists()):
        out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(student, first)
    run = start(out, seed, resume, first)
    reference = new_run(Networks(run.nets.config))
    load_run(reference, first)
    frozen, log = reference.ema.eval(), RewardLog()
    stage = Stage(
        name="grpo",
        pieces=policy_pieces(codecs, judge, frozen, seed, log),
        refresh=lambda: None,
        on_checkpoint=lambda r, o: (
            write_samples(served(r.ema, codecs), o, r.step, chunks=6, prompts=24, steps=STEPS)
            | log.take()
        ),
        peak=PEAK,
        steps=steps,
    )
    train_loop(run, stage, minutes, out)
    return run
