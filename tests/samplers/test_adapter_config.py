"""Reading diffusers configs: what is read means the same, and what is not read is an error."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from onbeat.samplers import families
from onbeat.samplers.adapters.config import load_sampler, read_sampler
from onbeat.samplers.schedule import cm_times

diffusers: Any = import_module("diffusers")


def saved(name: str, folder: Path, **settings: Any) -> Path:
    """A config as diffusers itself writes it."""
    getattr(diffusers, name)(**settings).save_pretrained(folder)
    return folder


def test_defaults_are_the_families(tmp_path: Path) -> None:
    def read(name: str, steps: int, **settings: Any) -> Any:
        return load_sampler(saved(name, tmp_path / name, **settings), steps)

    assert read("LCMScheduler", 4) == families.lcm()
    assert read("TCDScheduler", 4) == families.tcd()
    cm = families.consistency_model(cm_times(2))
    assert read("CMStochasticIterativeScheduler", 2) == replace(cm, clip=1.0)
    assert read("CMStochasticIterativeScheduler", 2, clip_denoised=False) == cm
    assert read("FlowMatchLCMScheduler", 4, shift=5.0) == families.self_forcing()
    assert read("FlowMapEulerDiscreteScheduler", 3, shift=5.0) == families.flow_map(3, 5.0)
    assert read("MiniMaxH3Scheduler", 4) == families.minimax_h3(4)
    scm = read("SCMScheduler", 2)
    assert scm.path == families.trigflow().path and scm.times[1:] == (1.3, 0.0)
    euler = read("FlowMatchEulerDiscreteScheduler", 4, shift=3.0)
    assert euler == families.rectified_flow(4, 3.0, "v", "1000t", 0.0)
    euler = read("FlowMatchEulerDiscreteScheduler", 4, shift=3.0, stochastic_sampling=True)
    assert euler.stochasticity == 1.0


def test_settings_are_used() -> None:
    config = {
        "_class_name": "LCMScheduler",
        "_diffusers_version": "0.22.0",
        "beta_schedule": "linear",
        "beta_start": 0.0001,
        "beta_end": 0.02,
        "num_train_timesteps": 500,
        "original_inference_steps": 25,
        "prediction_type": "v_prediction",
        "rescale_betas_zero_snr": True,
        "timestep_scaling": 5.0,
        "steps_offset": 1,
        "timestep_spacing": "leading",
        "trained_betas": None,
    }
    sampler = read_sampler(config, 5)
    assert sampler.path.betas is not None
    assert (sampler.path.betas.kind, sampler.path.betas.steps) == ("linear", 500)
    assert sampler.path.betas.zero_snr and sampler.boundary.scaling == 5.0
    assert sampler.times == (499, 399, 299, 199, 99, -1) and sampler.prediction == "v"
    cosine = read_sampler({**config, "beta_schedule": "squaredcos_cap_v2"}, 5)
    assert cosine.path.betas is not None and cosine.path.betas.kind == "squaredcos_cap_v2"


def test_file_and_folder_and_explicit_times(tmp_path: Path) -> None:
    file = tmp_path / "scheduler_config.json"
    config = {"_class_name": "LCMScheduler"}
    file.write_text(json.dumps(config))
    assert load_sampler(file, 2) == load_sampler(tmp_path, 2) == families.lcm(2)
    times = (999.0, 749.0, 499.0, 249.0)  # as DMD2 on SDXL expects
    assert read_sampler(config, 4, times).times == (*times, -1.0)
    assert read_sampler(config, 4).times != (*times, -1.0)


REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("LCMScheduler", {"thresholding": True}, "thresholding is True; allowed for LCMScheduler: Fal"),
    ("LCMScheduler", {"clip_sample": True}, "clip_sample is True; allowed"),
    ("LCMScheduler", {"trained_betas": [0.1]}, r"trained_betas is \[0.1\]"),
    ("LCMScheduler", {"beta_schedule": "sigmoid"}, "beta_schedule is 'sigmoid'; allowed: linear"),
    ("TCDScheduler", {"prediction_type": "flow"}, "prediction_type is 'flow'; allowed: epsilon"),
    ("LCMScheduler", {"sigma_data": 1.0}, "sigma_data is unknown; allowed for LCMScheduler: num_"),
    ("CMStochasticIterativeScheduler", {"s_noise": 1.01}, "s_noise is 1.01"),
    ("CMStochasticIterativeScheduler", {"rho": 5.0}, "rho is 5.0"),
    ("SCMScheduler", {"prediction_type": "eps"}, "prediction_type is 'eps'"),
    ("FlowMatchEulerDiscreteScheduler", {"use_dynamic_shifting": True}, "use_dynamic_shifting"),
    ("FlowMatchEulerDiscreteScheduler", {"use_karras_sigmas": True}, "use_karras_sigmas is True"),
    ("FlowMatchEulerDiscreteScheduler", {"invert_sigmas": True}, "invert_sigmas is True"),
    ("FlowMatchEulerDiscreteScheduler", {"shift_terminal": 0.1}, "shift_terminal is 0.1"),
    ("FlowMatchLCMScheduler", {"scale_factors": [0.5]}, "scale_factors is"),
    ("EulerDiscreteScheduler", {}, "_class_name is 'EulerDiscreteScheduler'; allowed: LCM"),
)


@pytest.mark.parametrize(("name", "change", "message"), REFUSED)
def test_what_we_do_not_have_is_named(name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_sampler({"_class_name": name, **change}, 2)


@pytest.mark.parametrize(
    "name",
    [
        "LCMScheduler",
        "TCDScheduler",
        "CMStochasticIterativeScheduler",
        "SCMScheduler",
        "FlowMatchEulerDiscreteScheduler",
        "FlowMatchLCMScheduler",
        "FlowMapEulerDiscreteScheduler",
        "MiniMaxH3Scheduler",
    ],
)
def test_every_setting_that_diffusers_has_is_known(name: str) -> None:
    """A setting that a release adds is noticed here, not passed over."""
    config = {**getattr(diffusers, name)().config, "_class_name": name}
    assert read_sampler(config, 2).steps == 2
