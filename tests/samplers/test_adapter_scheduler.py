"""Our scheduler inside diffusers: a whole pipeline, and the calls that pipelines make."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from onbeat.samplers import families

diffusers: Any = import_module("diffusers")
OnbeatScheduler: Any = import_module("onbeat.samplers.adapters.scheduler").OnbeatScheduler


def pipeline(scheduler: Any) -> Any:
    torch.manual_seed(0)
    unet = diffusers.UNet2DModel(
        sample_size=8,
        block_out_channels=(8, 8),
        norm_num_groups=4,
        layers_per_block=1,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        num_class_embeds=2,
    )
    pipe = diffusers.ConsistencyModelPipeline(unet=unet, scheduler=scheduler)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def images(pipe: Any, rows: int, generator: Any) -> Tensor:
    latents = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(1))[:rows]
    out = pipe(
        batch_size=rows,
        num_inference_steps=3,
        class_labels=[0] * rows if rows > 1 else 0,
        latents=latents,
        generator=generator,
        output_type="pt",
    )
    result: Tensor = out.images
    return result


@pytest.mark.parametrize("seed", [-1, 1 << 63, 1.5, "x", None])
def test_a_seed_that_noise_has_not_is_refused_by_name(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed is .*; allowed: whole numbers"):
        OnbeatScheduler.replacing(diffusers.CMStochasticIterativeScheduler(), seed=seed)


@pytest.mark.parametrize("steps", [0, -2, 2.5])
def test_steps_that_are_no_number_of_steps_are_refused_by_name(steps: Any) -> None:
    scheduler = OnbeatScheduler.replacing(diffusers.CMStochasticIterativeScheduler())
    with pytest.raises(ValueError, match="num_inference_steps is .*; allowed: a whole number"):
        scheduler.set_timesteps(steps)


def test_a_pipeline_gives_what_it_gave_with_our_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = diffusers.CMStochasticIterativeScheduler()
    ours = OnbeatScheduler.replacing(theirs, seed=5)
    drawn = []
    module = import_module("onbeat.samplers.adapters.scheduler")
    step = module.consistency_step

    def spy(x: Tensor, prediction: Tensor, table: Tensor, keys: Tensor) -> Any:
        from onbeat.kernels.philox_normal import philox_normal

        drawn.append(philox_normal(keys, x.shape[1]))
        return step(x, prediction, table, keys)

    monkeypatch.setattr(module, "consistency_step", spy)
    mine = images(pipeline(ours), 2, None)
    noise = iter(drawn)
    patch = "diffusers.schedulers.scheduling_consistency_models.randn_tensor"
    monkeypatch.setattr(patch, lambda shape, **_: next(noise).view(shape))
    assert torch.allclose(mine, images(pipeline(theirs), 2, None), atol=2e-6)
    assert len(drawn) == 3 and mine.std() > 0.05


def test_an_image_does_not_depend_on_its_batch() -> None:
    pipe = pipeline(OnbeatScheduler.replacing(diffusers.CMStochasticIterativeScheduler()))

    def generators(*seeds: int) -> list[torch.Generator]:
        return [torch.Generator().manual_seed(seed) for seed in seeds]

    together = images(pipe, 3, generators(4, 5, 6))
    assert torch.allclose(images(pipe, 1, generators(4))[0], together[0], atol=1e-6)
    assert torch.equal(together, images(pipe, 3, generators(4, 5, 6)))


def test_it_is_saved_and_loaded_like_any_scheduler(tmp_path: Path) -> None:
    ours = OnbeatScheduler.replacing(diffusers.TCDScheduler(), seed=9)
    ours.save_pretrained(tmp_path)
    again = OnbeatScheduler.from_pretrained(tmp_path)
    again.set_timesteps(4)
    assert again.sampler == families.tcd() and again.config.seed == 9


def test_a_step_is_idempotent_and_found_by_its_timestep() -> None:
    ours = OnbeatScheduler.replacing(diffusers.LCMScheduler())
    ours.set_timesteps(4)
    x, output = torch.randn(2, 2, 4, 8, 8)
    first = ours.step(output, ours.timesteps[2], x, return_dict=False)
    assert ours.step_index == 3
    ours.step(output, ours.timesteps[0], x)
    second = ours.step(output, 499, x, return_dict=False)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    result = ours.step(output, ours.timesteps[3], x)
    assert torch.equal(result.prev_sample, result.pred_original_sample)


def test_timesteps_look_as_pipelines_expect() -> None:
    def steps(name: str, n: int, **settings: Any) -> Tensor:
        ours = OnbeatScheduler.replacing(getattr(diffusers, name)(**settings))
        ours.set_timesteps(n)
        timesteps: Tensor = ours.timesteps
        return timesteps

    assert steps("LCMScheduler", 4).tolist() == [999, 759, 499, 259]
    assert steps("LCMScheduler", 4).dtype == torch.int64
    assert steps("FlowMatchEulerDiscreteScheduler", 2, shift=3.0).tolist() == [1000.0, 750.0]
    assert steps("MiniMaxH3Scheduler", 2, shift=3.0).tolist() == [0.0, 0.25]
    assert steps("SCMScheduler", 1).tolist() == pytest.approx([1.5707964, 0.0])
    scm = OnbeatScheduler.replacing(diffusers.SCMScheduler())
    scm.set_timesteps(2, max_timesteps=1.57080, intermediate_timesteps=1.3)
    assert scm.timesteps.tolist() == pytest.approx([1.5707964, 1.3, 0.0])
    assert scm.config.sigma_data == 0.5  # SANA-Sprint's pipeline reads it
    assert scm.init_noise_sigma == 0.5


def test_explicit_levels_mean_what_they_mean_to_diffusers() -> None:
    grid = [1.0, 0.75, 0.5, 0.25]
    for name in ("FlowMatchEulerDiscreteScheduler", "FlowMatchLCMScheduler"):
        theirs = getattr(diffusers, name)(shift=3.0)
        ours = OnbeatScheduler.replacing(theirs)
        theirs.set_timesteps(sigmas=grid)
        ours.set_timesteps(sigmas=grid, mu=0.7)  # some pipelines pass mu always
        assert ours.sampler.times == pytest.approx(theirs.sigmas.tolist())
        assert ours.timesteps.tolist() == pytest.approx(theirs.timesteps.tolist())
    theirs = diffusers.CMStochasticIterativeScheduler()
    ours = OnbeatScheduler.replacing(theirs)
    for scheduler in (theirs, ours):
        scheduler.set_timesteps(timesteps=[22, 0])  # the two steps of the paper on ImageNet-64
    assert ours.sampler.times == pytest.approx(theirs.sigmas.tolist(), rel=1e-6)
    theirs = diffusers.MiniMaxH3Scheduler()
    ours = OnbeatScheduler.replacing(theirs)
    for scheduler in (theirs, ours):
        scheduler.set_timesteps(sigmas=[1.0, 0.9, 0.0])
    assert ours.timesteps.tolist() == pytest.approx(theirs.timesteps.tolist())
    theirs = diffusers.SCMScheduler()
    ours = OnbeatScheduler.replacing(theirs)
    for scheduler in (theirs, ours):
        scheduler.set_timesteps(4, max_timesteps=1.5, intermediate_timesteps=None)
    assert ours.timesteps.tolist() == pytest.approx(theirs.timesteps.tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_noise_is_added_as_theirs_does(dtype: torch.dtype) -> None:
    x, z = torch.randn(2, 2, 4, 8, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    for make, method in (
        (diffusers.LCMScheduler, "add_noise"),
        (diffusers.CMStochasticIterativeScheduler, "add_noise"),
        (diffusers.FlowMatchLCMScheduler, "scale_noise"),
    ):
        theirs = make()
        theirs.set_timesteps(4)
        ours = OnbeatScheduler.replacing(theirs)
        ours.set_timesteps(4)
        t = theirs.timesteps[1:2].repeat(2)
        a = getattr(theirs, method)(*((x, t, z) if method == "scale_noise" else (x, z, t)))
        b = getattr(ours, method)(*((x, t, z) if method == "scale_noise" else (x, z, t)))
        allowed = (2e-5 if dtype == torch.float32 else 0.02) * a.abs().max()
        assert a.dtype == b.dtype and (a - b).abs().max() <= allowed


def test_what_is_missing_is_named() -> None:
    ours = OnbeatScheduler.replacing(diffusers.LCMScheduler())
    with pytest.raises(ValueError, match="num_inference_steps is None"):
        ours.set_timesteps()
    with pytest.raises(ValueError, match="num_inference_steps is 3; allowed: 2"):
        ours.set_timesteps(3, timesteps=[999, 499])
    with pytest.raises(ValueError, match="_class_name is 'DDIMScheduler'"):
        OnbeatScheduler.replacing(diffusers.DDIMScheduler())
