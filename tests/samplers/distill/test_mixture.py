"""Distillation beats training from data alone at equal budget, on a mixture in two dimensions.

Three normals; the teacher is their exact posterior mean, the student a small network that starts at
random. Judged by the energy distance of its one-step samples from fresh data.
"""

import pytest
import torch
from torch import Tensor, nn

from onbeat.samplers.distill.rules import recipes
from onbeat.samplers.distill.rules.rule import Batch, Function, Latents, Models, Query, Rule
from onbeat.samplers.distill.training.average import constant
from onbeat.samplers.distill.training.trainer import Plan, Trainer

MEANS = torch.tensor([[0.6, 0.6], [-0.6, 0.6], [0.0, -0.72]])
SHARES = torch.tensor([0.5, 0.3, 0.2])
STD, STEPS, ROWS = 0.12, 400, 256


def data(rows: int, generator: torch.Generator) -> Tensor:
    which = torch.multinomial(SHARES, rows, replacement=True, generator=generator)
    return MEANS[which] + STD * torch.randn(rows, 2, generator=generator)


def posterior(query: Query) -> Latents:
    """E[x0 | x]: each normal's own mean, weighted by how likely x is under it."""
    x, t = query.x["x"], query.t["x"].float()[:, None]
    variance = STD**2 + t.square()
    apart = (x[:, None] - MEANS).square().sum(-1)
    chance = (SHARES.log() - apart / (2 * variance)).softmax(1)
    each = MEANS + (STD**2 / variance)[..., None] * (x[:, None] - MEANS)
    return {"x": (chance[..., None] * each).sum(1)}


class Net(nn.Module):
    """f on sigmas, with the boundary rule of EDM."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(10, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2)
        )

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        sigma = t.float()[:, None]
        angles = sigma.clamp(min=1e-4).log() * torch.tensor([0.375, 0.75, 1.125, 1.5])
        scale = (sigma.square() + 0.25).sqrt()
        out: Tensor = self.body(torch.cat([x / scale, angles.sin(), angles.cos()], dim=1))
        above = sigma - 0.002
        return 0.25 / (above.square() + 0.25) * x + 0.5 * above / scale * out


def function(net: nn.Module) -> Function:
    return lambda query: {"x": net(query.x["x"], query.t["x"])}


def bind(net: nn.Module, average: nn.Module, clean: Tensor) -> tuple[Models, Batch]:
    models = Models(student=function(net), average=function(average), teacher=posterior)
    return models, Batch(clean={"x": clean})


def energy(a: Tensor, b: Tensor) -> float:
    own = torch.cdist(a, a).mean() + torch.cdist(b, b).mean()
    return float(2 * torch.cdist(a, b).mean() - own)


def distance_after(rule: Rule, seed: int) -> float:
    torch.manual_seed(seed)
    plan = Plan(steps=STEPS, seed=seed, rate=3e-3, fall=0.5)
    run = Trainer(Net(), rule, bind, lambda g: data(ROWS, g), plan, constant(0.9))
    for _ in range(STEPS):
        run.train_step()
    g = torch.Generator().manual_seed(99)
    noise = 80.0 * torch.randn(2000, 2, generator=g)
    with torch.no_grad():
        made = run.net(noise, torch.full((2000,), 80.0))
    return energy(made, data(2000, g))


@pytest.mark.timeout(600)
def test_distillation_is_better_than_training_at_equal_budget() -> None:
    taught, alone = distance_after(recipes.cd(18), 0), distance_after(recipes.ct(40), 0)
    assert taught < 0.8 * alone and taught < 0.1, (taught, alone)
