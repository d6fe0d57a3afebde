"""The families: schedules from the literature, and exact models that must give exact samples."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from onbeat.samplers import families
from onbeat.samplers.consistency import (
    commit_latents,
    inputs_of,
    start_rows,
    step_rows,
    targets_of,
    times_of,
)
from onbeat.samplers.convert import prediction_for
from onbeat.samplers.sampler import Sampler
from onbeat.samplers.schedule import at_strength, cm_times, trig_times
from onbeat.samplers.state import ChunkState

FAMILIES = {
    "rf": families.rectified_flow(2, 3.0),
    "self_forcing": families.self_forcing(),
    "raven": families.raven(),
    "minimax_h3": families.minimax_h3(4),
    "flow_map": families.flow_map(3),
    "rcm": families.rcm(),
    "sana_sprint": families.sana_sprint(),
    "cm": families.consistency_model(cm_times(3)),
    "ect": families.ect(),
    "lcm": families.lcm(),
    "tcd": families.tcd(),
    "trigflow": families.trigflow(),
}
SPREAD = 0.5


class Tokens:
    name, tokens, dim, shift = "video", 200, 200, 1.0


def start(sampler: Sampler, source: Tensor | None = None) -> ChunkState:
    sources = None if source is None else [{"video": source}]
    return start_rows([Tokens()], [1], [2], [3], [{"video": sampler}], sources)[0]


def exact_x0(sampler: Sampler, x: Tensor, t: float, s: float) -> Tensor:
    """Where the exact flow of data N(0, SPREAD^2) takes x: all the way to clean for a consistency
    model; for a flow map, the end of the straight line through its value at s."""
    a, b = sampler.path.scales(t)
    now = math.hypot(a * SPREAD, b)
    if sampler.stochasticity == 1.0 or s == sampler.path.clean:
        return x * (SPREAD / now)
    a_s, b_s = sampler.path.scales(sampler.path.between(s, sampler.stochasticity))
    there = x * (math.hypot(a_s * SPREAD, b_s) / now)
    return (there - x * (b_s / b)) / (a_s - a * b_s / b)


@pytest.mark.parametrize("name", FAMILIES)
def test_an_exact_model_gives_exact_samples(name: str) -> None:
    """Each family with the network output that its exact model would give on Gaussian data."""
    sampler = FAMILIES[name]
    state = start(sampler)
    while not state.done:
        x, i = state.latents["video"][None], state.step
        t, s = sampler.times[i : i + 2]
        x0 = exact_x0(sampler, x, t, s)
        state = step_rows([state], {"video": prediction_for(sampler, x, [t], x0)})[0]
    out = state.latents["video"]
    assert float(out.std()) == pytest.approx(SPREAD, rel=0.02)
    assert abs(float(out.mean())) < 0.01


@pytest.mark.parametrize("name", FAMILIES)
def test_a_source_is_begun_at_its_strength(name: str) -> None:
    sampler = at_strength(FAMILIES[name], 0.5)
    source = torch.full((200, 200), 3.0)
    a, b = sampler.path.scales(sampler.times[0])
    x = start(sampler, source).latents["video"]
    assert float(x.mean()) == pytest.approx(3.0 * a, abs=0.03 * max(b, 1.0))
    assert float(x.std()) == pytest.approx(b, rel=0.02)


def test_rows_with_and_without_a_source_start_together() -> None:
    sampler = at_strength(families.rectified_flow(2), 0.5)
    source = {"video": torch.ones(200, 200)}
    rows = start_rows([Tokens()], [1, 1], [2, 2], [3, 3], [{"video": sampler}] * 2, [None, source])
    assert torch.equal(rows[0].latents["video"], start(sampler).latents["video"])
    assert torch.equal(rows[1].latents["video"], start(sampler, source["video"]).latents["video"])


def test_what_the_network_gets() -> None:
    names = ("ect", "lcm", "trigflow", "flow_map", "raven", "cm")
    states = [start(FAMILIES[name]) for name in names]
    told = times_of(states)["video"].tolist()
    assert told == pytest.approx([1.0955, 999.0, 1.56454, 1000.0, 0.0, 1095.507], abs=1e-3)
    x, scaled = (torch.stack([s.latents["video"] for s in states]), inputs_of(states)["video"])
    factors = [(scaled[i] / x[i]).mean().item() for i in range(len(names))]
    edm = 1.0 / (80.0**2 + 0.25) ** 0.5
    assert factors == pytest.approx([edm, 1.0, 2.0, 1.0, 1.0, edm], rel=1e-5)
    assert targets_of(states[3:4])["video"].tolist() == pytest.approx([2000.0 / 3.0])


def test_a_commit_follows_the_path_of_each_row() -> None:
    states = []
    for name in ("rf", "self_forcing", "trigflow"):
        state = start(FAMILIES[name])
        states += step_rows([state], {"video": torch.ones(1, 200, 200)})
    latents, times = commit_latents(states, 0.1)
    assert times["video"].tolist() == pytest.approx([0.1, 100.0, 0.1])
    stds = latents["video"].std(dim=(1, 2)).tolist()
    assert stds[0] == pytest.approx(0.1, rel=0.02)
    clean = states[2].x0
    assert clean is not None
    rest = latents["video"][2] - clean["video"] * torch.cos(torch.tensor(0.1))
    assert float(rest.std()) == pytest.approx(0.5 * 0.0998, rel=0.02)


def test_modalities_share_the_step_index() -> None:
    class Audio:
        name, tokens, dim, shift = "audio", 2, 3, 1.5

    both = {"video": families.raven(4, 12.0), "audio": families.raven(4, 3.0)}
    state = start_rows([Audio(), Tokens()], [1], [2], [3], [both])[0]
    told = {name: 1.0 - t.item() for name, t in targets_of([state]).items()}
    assert told == {"audio": pytest.approx(0.9), "video": pytest.approx(0.973, abs=1e-3)}
    with pytest.raises(ValueError, match=r"steps is \[2, 4\]; allowed: one number"):
        start_rows([Tokens()], [1], [2], [3], [{**both, "audio": families.raven(2)}])


def test_published_schedules() -> None:
    assert families.self_forcing().times == pytest.approx((1, 0.9375, 0.8333, 0.6250, 0), abs=1e-4)
    assert families.raven().times == pytest.approx((1, 0.973, 0.923, 0.800, 0), abs=1e-3)
    assert families.raven(4, 3.0).times == pytest.approx((1, 0.9, 0.75, 0.5, 0))
    assert families.rcm().times == pytest.approx((0.9877, 0.9338, 0.8529, 0.6090, 0), abs=1e-4)
    assert families.lcm().times == (999, 759, 499, 259, -1)
    assert families.trigflow().times == pytest.approx((1.56454, 1.1, 0), abs=1e-5)
    assert cm_times(1) == pytest.approx((80.0, 0.002))
    assert families.raven().network_times[1] == pytest.approx(1 - 0.973, abs=1e-3)


def test_families_are_shared_and_checked() -> None:
    assert families.lcm() is families.lcm()
    with pytest.raises(ValueError, match="steps is 5; allowed: 1 to 4"):
        families.rcm(5)
    with pytest.raises(ValueError, match="steps is 0; allowed: 1 or more"):
        trig_times(0)
    with pytest.raises(ValueError, match="steps is 60; allowed: 1 to 50"):
        families.lcm(60)
    with pytest.raises(ValueError, match="times is"):
        replace(families.ect(), times=(1.0, 0.002))
