"""Twelve traps of few-step scheduler objects (docs/samplers.md), each with what ours does instead.

The other library's behaviour is asserted too, so that a release that changes it is noticed here.
"""

import math
import warnings
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from onbeat.samplers import families
from onbeat.samplers.adapters.config import read_sampler
from onbeat.samplers.consistency import init_rows, latents_of, start_rows, step_rows
from onbeat.samplers.sampler import Sampler
from onbeat.samplers.schedule import at_strength, cm_times, rf_schedule, trig_times

diffusers: Any = import_module("diffusers")
OnbeatScheduler: Any = import_module("onbeat.samplers.adapters.scheduler").OnbeatScheduler


class Tokens:
    name, tokens, dim, shift = "video", 4, 6, 3.0


def config_of(theirs: Any) -> dict[str, Any]:
    return {**theirs.config, "_class_name": type(theirs).__name__}


def ours(theirs: Any, steps: int) -> Any:
    scheduler = OnbeatScheduler.replacing(theirs)
    scheduler.set_timesteps(steps)
    return scheduler


def test_1_a_schedule_is_shifted_once() -> None:
    for make in (diffusers.FlowMatchEulerDiscreteScheduler, diffusers.FlowMatchLCMScheduler):
        theirs = make(shift=3.0)
        theirs.set_timesteps(4)
        assert theirs.sigmas.tolist()[:4] == pytest.approx([1.0, 0.858, 0.602, 0.0089], abs=1e-3)
        assert read_sampler(config_of(theirs), 4).times == (1.0, 0.9, 0.75, 0.5, 0.0)


def test_2_no_evaluation_is_spent_at_the_end_of_the_grid() -> None:
    theirs = diffusers.FlowMatchEulerDiscreteScheduler()
    theirs.set_timesteps(4)
    assert theirs.sigmas[3] == pytest.approx(0.001)
    assert read_sampler(config_of(theirs), 4).times == (1.0, 0.75, 0.5, 0.25, 0.0)


def test_3_explicit_times_are_used_as_they_are() -> None:
    theirs = diffusers.FlowMatchEulerDiscreteScheduler(shift=5.0)
    theirs.set_timesteps(timesteps=[1000.0, 937.5, 833.33, 625.0])
    assert theirs.sigmas[1] == pytest.approx(0.98684, abs=1e-4)  # shifted behind the caller
    scheduler = OnbeatScheduler.replacing(theirs)
    scheduler.set_timesteps(timesteps=[1000.0, 937.5, 833.33, 625.0])
    assert scheduler.sampler.times == pytest.approx((1.0, 0.9375, 0.83333, 0.625, 0.0))
    assert scheduler.timesteps.tolist() == pytest.approx([1000.0, 937.5, 833.33, 625.0])


@pytest.mark.parametrize("name", ["LCMScheduler", "TCDScheduler"])
def test_4_the_last_step_adds_no_noise_whatever_the_strength(name: str) -> None:
    theirs = getattr(diffusers, name)()
    times = [999, 759, 499, 259]
    theirs.set_timesteps(timesteps=times, strength=0.5)
    x = torch.zeros(1, 4, 8, 8)
    assert theirs.timesteps.tolist() == [499, 259]
    for t in theirs.timesteps:
        x = theirs.step(torch.zeros_like(x), t, x).prev_sample
    assert x.std() > 0.02  # noise in the result: it counts four steps and ran two
    scheduler = OnbeatScheduler.replacing(theirs)
    scheduler.set_timesteps(timesteps=times, strength=0.5)
    assert len(scheduler.timesteps) == 4 and scheduler.timesteps[0] == 499
    x = torch.zeros(1, 4, 8, 8)
    for t in scheduler.timesteps[-1:]:
        x = scheduler.step(torch.zeros_like(x), t, x).prev_sample
    assert torch.equal(x, torch.zeros_like(x))


def test_5_every_family_ends_on_x0_and_draws_nothing_there() -> None:
    theirs = diffusers.TCDScheduler()
    theirs.set_timesteps(2)
    theirs.set_begin_index(1)
    x, output = torch.randn(2, 1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    left = theirs.step(output, theirs.timesteps[1], x).prev_sample
    final = ours(theirs, 2).step(output, theirs.timesteps[1], x)
    assert torch.equal(final.prev_sample, final.denoised)
    residue = left - math.sqrt(0.99915) * final.denoised  # 3 % of the noise, by training step 0
    expected = math.sqrt(1 - 0.99915) * float(output.std())
    assert float(residue.std()) == pytest.approx(expected, rel=0.01)
    cm = diffusers.CMStochasticIterativeScheduler()
    cm.set_timesteps(2)
    cm.scale_model_input(x, cm.timesteps[1])
    state = torch.get_rng_state()
    cm.step(output, cm.timesteps[1], x)
    assert not torch.equal(state, torch.get_rng_state())  # drawn, times 0
    for sampler in every_family():
        assert sampler.table[-1].noise == 0.0 and sampler.table[-1].next_x == 0.0
        assert sampler.table[-1].next_clean == 1.0


def every_family() -> list[Sampler]:
    return [
        families.rectified_flow(3, 5.0),
        families.self_forcing(),
        families.raven(),
        families.minimax_h3(3),
        families.flow_map(3),
        families.rcm(),
        families.sana_sprint(),
        families.consistency_model(cm_times(3)),
        families.ect(),
        families.lcm(3),
        families.tcd(3),
        families.trigflow(trig_times(3)),
    ]


def test_6_trigonometric_times_stay_on_the_quarter_circle() -> None:
    theirs = diffusers.SCMScheduler()
    with pytest.raises(ValueError, match="Intermediate timesteps"):
        theirs.set_timesteps(4)  # its default fits two steps alone
    theirs.set_timesteps(4, intermediate_timesteps=None)
    assert torch.cos(theirs.timesteps[0]) < 0.0
    sampler = read_sampler(config_of(theirs), 4)
    assert sampler.times == pytest.approx([math.pi / 2 * i / 4 for i in (4, 3, 2, 1, 0)])
    assert all(sampler.path.scales(t)[0] > 0.0 for t in sampler.times)
    assert read_sampler(config_of(theirs), 2).times == (math.pi / 2, 1.3, 0.0)
    with pytest.raises(ValueError, match="t is 1.5708; allowed on the path 'trig'"):
        read_sampler(config_of(theirs), 1, (1.5708,))


def test_7_noise_does_not_depend_on_the_dtype() -> None:
    def noise(step: Any, dtype: torch.dtype) -> Tensor:
        zero = torch.zeros(1, 4, 5, 5, dtype=dtype)
        generator = torch.Generator().manual_seed(5)
        out: Tensor = step(zero, zero, generator)
        return out.float()

    def theirs(output: Tensor, x: Tensor, generator: torch.Generator) -> Any:
        scheduler = diffusers.LCMScheduler()
        scheduler.set_timesteps(4)
        return scheduler.step(output, scheduler.timesteps[0], x, generator).prev_sample

    def mine(output: Tensor, x: Tensor, generator: torch.Generator) -> Any:
        scheduler = ours(diffusers.LCMScheduler(), 4)
        return scheduler.step(output, scheduler.timesteps[0], x, generator).prev_sample

    def difference(step: Any, dtype: torch.dtype) -> float:
        return float((noise(step, torch.float32) - noise(step, dtype)).abs().max())

    assert difference(theirs, torch.float64) > 1.0  # another draw altogether
    assert difference(theirs, torch.bfloat16) > 1.0
    assert difference(mine, torch.float64) == 0.0
    assert difference(mine, torch.bfloat16) < 0.02  # one rounding to bfloat16


class Reads(TorchDispatchMode):
    """Counts values that are read back from a tensor: a wait for the device, on a GPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (
            torch.ops.aten._local_scalar_dense.default,
            torch.ops.aten.nonzero.default,
        )
        return func(*args, **(kwargs or {}))


def test_8_a_step_reads_nothing_back_from_the_device() -> None:
    states = init_rows([Tokens()], [1, 2], [0, 0], [0, 1], [4, 1])
    predictions = latents_of(states)
    with Reads() as reads:
        step_rows(states, predictions)
    assert reads.count == 0
    theirs = diffusers.LCMScheduler()
    theirs.set_timesteps(4)
    x = torch.zeros(1, 4, 8, 8)
    with Reads() as reads:
        theirs.step(x, theirs.timesteps[0], x)
    assert reads.count > 0


def test_9_seeds_are_obeyed_and_a_row_does_not_depend_on_its_batch() -> None:
    def run(scheduler: Any, rows: int, seeds: Any) -> Tensor:
        x = torch.zeros(rows, 4, 8, 8)
        scheduler.set_timesteps(sigmas=[1.0, 0.5])
        out: Tensor = scheduler.step(x, scheduler.timesteps[0], x, generator=seeds).prev_sample
        return out

    theirs = diffusers.FlowMatchLCMScheduler()
    mine = OnbeatScheduler.replacing(theirs)

    def generators(*seeds: int) -> list[torch.Generator]:
        return [torch.Generator().manual_seed(seed) for seed in seeds]

    alone, pair = run(mine, 1, generators(7)), run(mine, 2, generators(6, 7))
    assert torch.equal(alone[0], pair[1])
    one = torch.Generator().manual_seed(7)
    assert torch.equal(run(mine, 2, one), run(mine, 3, one)[:2])  # nothing is used up either
    assert not torch.equal(run(theirs, 1, one), run(theirs, 1, one))


def test_10_no_clipping_and_no_lookup_behind_the_caller() -> None:
    assert diffusers.CMStochasticIterativeScheduler().config.clip_denoised
    assert families.consistency_model().clip is None
    theirs = diffusers.FlowMatchEulerDiscreteScheduler()
    theirs.set_timesteps(sigmas=[1.0, 0.5])
    x, z = torch.ones(1, 4), -torch.ones(1, 4)
    with pytest.raises(IndexError):
        theirs.scale_noise(x, torch.tensor([500.0001]), z)  # not on its schedule
    mine = OnbeatScheduler.replacing(theirs)
    mine.set_timesteps(sigmas=[1.0, 0.5])
    assert torch.allclose(mine.scale_noise(x, torch.tensor([250.0]), z), 0.75 * x + 0.25 * z)
    with pytest.raises(ValueError, match="times is"):
        read_sampler(config_of(theirs), 2, (1.0, 1.0))  # equal times


def test_11_a_blend_near_pure_noise_keeps_the_signal() -> None:
    sampler = replace(families.rectified_flow(2), times=(1.0, 0.999, 0.0))
    state = start_rows([Tokens()], [1], [0], [0], [{"video": sampler}])[0]
    predictions = [torch.full((1, 4, 6), value) for value in (0.0, 1.0)]
    after = [step_rows([state], {"video": p})[0].latents["video"] for p in predictions]
    assert torch.allclose(after[1] - after[0], torch.tensor(0.001), atol=2e-7)
    s, z = torch.tensor(0.999, dtype=torch.bfloat16), after[0].bfloat16()
    half = [(1 - s) * p.bfloat16() + s * z for p in predictions]
    assert (half[1] - half[0]).abs().max() == 0.0  # 1 - s is 0 in bfloat16
    with pytest.raises(ValueError, match="prediction is torch.bfloat16; allowed: torch.float32"):
        step_rows([state], {"video": predictions[0].bfloat16()})


def test_12_steps_are_evaluations() -> None:
    theirs = diffusers.MiniMaxH3Scheduler()
    theirs.set_timesteps(4)
    assert len(theirs.timesteps) == 3  # four levels, three evaluations
    assert read_sampler(config_of(theirs), 4).steps == 4
    assert all(sampler.steps == len(sampler.table) for sampler in every_family())
    assert rf_schedule(4, 12.0).steps == 4


def test_strength_is_continuous_and_ends_clean() -> None:
    for sampler in every_family():
        part = at_strength(sampler, 0.6)
        assert part.steps == sampler.steps and part.times[-1] == sampler.path.clean
        assert sampler.path.clean < part.times[0] < sampler.times[0]
        assert at_strength(sampler, 1.0) is sampler
    assert at_strength(families.rectified_flow(2), 0.5).times == (0.5, 0.25, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="strength is 0; allowed"):
            at_strength(families.lcm(4), 0)
