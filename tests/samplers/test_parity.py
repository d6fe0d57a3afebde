"""One row of each family against the scheduler of diffusers that implements it, same inputs and
noise: equal to float32 rounding wherever that scheduler does what its paper says."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from onbeat.samplers.adapters.config import read_sampler
from onbeat.samplers.consistency import start_rows, step_rows
from onbeat.samplers.families import sana_sprint
from onbeat.samplers.noise import draw, noise_keys, renoise_step
from onbeat.samplers.paths import alphas_bar
from onbeat.samplers.sampler import Sampler
from onbeat.samplers.schedule import rf_schedule
from onbeat.samplers.state import ChunkState

diffusers: Any = import_module("diffusers")


class Tokens:
    name, tokens, dim, shift = "video", 8, 12, 1.0


SEED, STREAM, CHUNK = 3, 1, 4
VP = {"prediction_type": "epsilon"}
V = {"prediction_type": "v_prediction"}


def begin(sampler: Sampler) -> ChunkState:
    return start_rows([Tokens()], [SEED], [STREAM], [CHUNK], [{"video": sampler}])[0]


def network(x: Tensor, i: int) -> Tensor:
    """Any function will do; bounded, so that no schedule blows up."""
    return torch.tanh(1.3 * x / (1.0 + x.abs().mean()) + 0.1 * i)


@pytest.fixture
def same_noise(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Gives a scheduler's module our noise, step by step."""

    def patch(scheduler: Any) -> None:
        def ours(shape: Any, **_: Any) -> Tensor:
            step = renoise_step(scheduler.step_index)
            return draw(noise_keys([SEED], [STREAM], [CHUNK], 0, [step]), (8, 12)).view(shape)

        monkeypatch.setattr(f"{type(scheduler).__module__}.randn_tensor", ours, raising=False)

    return patch


def pairs(
    theirs: Any, sampler: Sampler, prepare: Callable[[Any], None], **step: Any
) -> Iterator[tuple[Tensor, Tensor, bool]]:
    """(their next latents, ours, last step?) along their trajectory."""
    prepare(theirs)
    state = begin(sampler)
    x = state.latents["video"][None] * 1.0
    for i, t in enumerate(theirs.timesteps[: sampler.steps]):
        scale = getattr(theirs, "scale_model_input", lambda x, _: x)
        assert torch.allclose(scale(x, t), x * sampler.input_scales[i], rtol=1e-6)
        assert float(t) == pytest.approx(sampler.network_times[i], rel=1e-6, abs=1e-6)
        output = network(x, i)
        x = theirs.step(output, t, x, return_dict=False, **step)[0]
        state = step_rows([state], {"video": output})[0]
        last = i == sampler.steps - 1
        yield x[0], state.latents["video"], last
        # go on from the same latents, so that differences do not add up
        state = ChunkState(
            **{n: getattr(state, n) for n in ChunkState.__slots__ if n != "latents"},
            latents={"video": x[0]},
        )


def close(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() <= 4e-6 * max(1.0, float(b.abs().max())))


def config_of(theirs: Any) -> dict[str, Any]:
    return {**theirs.config, "_class_name": type(theirs).__name__}


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("clip", [False, True])
def test_consistency_models(steps: int, clip: bool, same_noise: Callable[[Any], None]) -> None:
    theirs = diffusers.CMStochasticIterativeScheduler(clip_denoised=clip)
    theirs.set_timesteps(steps)
    sampler = read_sampler(config_of(theirs), steps)
    assert sampler.times == pytest.approx(theirs.sigmas.tolist(), rel=1e-6)
    assert sampler.path.start_scale(sampler.times[0]) == pytest.approx(theirs.init_noise_sigma)
    assert all(close(a, b) for a, b, _ in pairs(theirs, sampler, same_noise))


@pytest.mark.parametrize("steps", [1, 2, 4, 8])
@pytest.mark.parametrize("settings", [VP, V, {"prediction_type": "sample"}])
def test_lcm(steps: int, settings: dict[str, Any], same_noise: Callable[[Any], None]) -> None:
    theirs = diffusers.LCMScheduler(**settings)
    theirs.set_timesteps(steps)
    sampler = read_sampler(config_of(theirs), steps)
    assert [*sampler.times[:-1]] == theirs.timesteps.tolist()
    # their table of alphas is a float32 product of 1000 numbers, ours float64: 1/a is 14.6 at 999
    tolerance = 2e-4 if settings is VP else 1e-5
    for a, b, _ in pairs(theirs, sampler, same_noise):
        assert torch.allclose(a, b, atol=tolerance)


def test_lcm_to_float32_rounding_on_equal_alphas(same_noise: Callable[[Any], None]) -> None:
    theirs = diffusers.LCMScheduler()
    theirs.set_timesteps(4)
    sampler = read_sampler(config_of(theirs), 4)
    assert sampler.path.betas is not None
    exact = torch.tensor(alphas_bar(sampler.path.betas), dtype=torch.float64)
    assert (theirs.alphas_cumprod / exact - 1).abs().max() < 2e-5
    theirs.alphas_cumprod = exact
    for a, b, _ in pairs(theirs, sampler, same_noise):
        assert torch.allclose(a, b.to(a), atol=1.5e-5)  # 14.6 times one rounding of x


@pytest.mark.parametrize("eta", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("settings", [VP, V])
def test_tcd(eta: float, settings: dict[str, Any], same_noise: Callable[[Any], None]) -> None:
    theirs = diffusers.TCDScheduler(**settings)
    theirs.set_timesteps(4)
    sampler = replace(read_sampler(config_of(theirs), 4), stochasticity=eta)
    for a, b, last in pairs(theirs, sampler, same_noise, eta=eta):
        if not last:  # theirs stops at step 0, which is not clean: see test_traps
            assert torch.allclose(a, b, atol=2e-4)


@pytest.mark.parametrize("times", [(1.5, 0.0), (1.5, 1.1, 0.0), (1.5, 1.2, 0.7, 0.2, 0.0)])
def test_trigflow(times: tuple[float, ...], same_noise: Callable[[Any], None]) -> None:
    theirs = diffusers.SCMScheduler()
    theirs.set_timesteps(
        len(times) - 1, timesteps=list(times), max_timesteps=None, intermediate_timesteps=None
    )
    theirs._step_index = 0  # its own first lookup wants exact floats
    sampler = read_sampler(config_of(theirs), 1, times[:-1])
    assert all(close(a, b) for a, b, _ in pairs(theirs, sampler, same_noise))


def test_sana_sprint_is_rectified_flow_on_latents_of_scale_one(
    same_noise: Callable[[Any], None],
) -> None:
    """The pipeline's conversions around SCMScheduler, against one plain sampler."""
    angles = (math.pi / 2 - 1e-3, 1.3, 0.0)
    theirs = diffusers.SCMScheduler()
    theirs.set_timesteps(2, timesteps=list(angles), max_timesteps=None, intermediate_timesteps=None)
    theirs.set_begin_index(0)
    same_noise(theirs)
    state = begin(sana_sprint(2, angles[0]))
    factor = math.hypot(math.sin(angles[0]), math.cos(angles[0]))
    share = math.sin(angles[0]) + math.cos(angles[0])
    x = state.latents["video"][None] * share * factor * 0.5  # their state for our x
    for i, t in enumerate(theirs.timesteps[:-1]):
        s = torch.sin(t) / (torch.cos(t) + torch.sin(t))
        root = torch.sqrt(s**2 + (1 - s) ** 2)
        x_in = x / 0.5 * root
        assert torch.allclose(x_in[0], state.latents["video"], atol=2e-6)
        output = network(x_in, i)
        f = ((1 - 2 * s) * x_in + (1 - 2 * s + 2 * s**2) * output) / root * 0.5
        x, denoised = theirs.step(f, t, x, return_dict=False)
        state = step_rows([state], {"video": output})[0]
        assert state.x0 is not None
        assert torch.allclose(denoised[0] / 0.5, state.x0["video"], atol=4e-6)
    assert torch.allclose(x[0] / 0.5, state.latents["video"], atol=4e-6)


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("shift", [1.0, 5.0])
@pytest.mark.parametrize(
    "name", ["FlowMatchEulerDiscreteScheduler", "FlowMatchLCMScheduler", "stochastic", "FlowMap"]
)
def test_rectified_flow(
    name: str, shift: float, steps: int, same_noise: Callable[[Any], None]
) -> None:
    make: Any = {
        "FlowMatchEulerDiscreteScheduler": diffusers.FlowMatchEulerDiscreteScheduler,
        "FlowMatchLCMScheduler": diffusers.FlowMatchLCMScheduler,
        "FlowMap": diffusers.FlowMapEulerDiscreteScheduler,
    }.get(name)
    if make is None:
        theirs = diffusers.FlowMatchEulerDiscreteScheduler(shift=shift, stochastic_sampling=True)
    else:
        theirs = make(shift=shift)
    grid = [1.0 - i / steps for i in range(steps)]
    theirs.set_timesteps(sigmas=grid)
    sampler = read_sampler(config_of(theirs), steps)
    assert sampler.times == pytest.approx(rf_schedule(steps, shift).times)
    assert sampler.stochasticity == float(name in ("FlowMatchLCMScheduler", "stochastic"))
    assert all(close(a, b) for a, b, _ in pairs(theirs, sampler, same_noise))


@pytest.mark.parametrize("shift", [12.0, 3.0])
def test_minimax_h3(shift: float, same_noise: Callable[[Any], None]) -> None:
    theirs = diffusers.MiniMaxH3Scheduler(shift=shift)
    theirs.set_timesteps(5)
    sampler = read_sampler(config_of(theirs), 4)
    assert sampler.times == pytest.approx(theirs.sigmas.tolist(), rel=1e-6)
    assert all(close(a, b) for a, b, _ in pairs(theirs, sampler, same_noise))
