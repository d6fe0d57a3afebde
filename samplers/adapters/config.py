"""Reads a diffusers `scheduler_config.json` into a sampler of ours, where both mean the same.

Settings that change the mathematics and that we do not have are errors that name the field, its
value and what is allowed; settings that diffusers itself never reads for that class are passed
over; anything else is unknown and an error too. Schedules are the documented ones: a rectified-flow
grid is shifted once and ends at 0, TCD ends at x0 (see docs/samplers.md for what diffusers does).
This module does not import diffusers.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from onbeat.samplers import families
from onbeat.samplers.paths import Betas, Path
from onbeat.samplers.predictions import Boundary, Prediction
from onbeat.samplers.sampler import Sampler
from onbeat.samplers.schedule import cm_times, lcm_times, rf_schedule, trig_times

Config = Mapping[str, Any]
Times = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """How one class of diffusers is read. `needed`: the one value that we have of each setting;
    `passed`: settings without effect; `used`: those that `build` reads."""

    build: Callable[[Config, int], Sampler]
    needed: Mapping[str, Any]
    passed: tuple[str, ...]
    used: tuple[str, ...]


def load_sampler(path: FilePath | str, steps: int) -> Sampler:
    """`read_sampler` of a file, or of `scheduler_config.json` in a folder."""
    file = FilePath(path)
    file = file / "scheduler_config.json" if file.is_dir() else file
    return read_sampler(json.loads(file.read_text()), steps)


def read_sampler(config: Config, steps: int, times: Times | None = None) -> Sampler:
    """The sampler of a diffusers scheduler's config, with `steps` evaluations.

    times: the levels of the evaluations in the path's own units instead (rectified flow 0 to 1, EDM
    sigma, trigonometric angle, training step); used as they are, clean is added at the end.
    Raises ValueError naming the setting, its value and what is allowed.
    """
    name = config.get("_class_name")
    kind = _KINDS.get(str(name))
    if kind is None:
        raise ValueError(f"_class_name is {name!r}; allowed: {', '.join(_KINDS)}")
    for key, value in config.items():
        if key in kind.needed and value != kind.needed[key]:
            raise ValueError(f"{key} is {value!r}; allowed for {name}: {kind.needed[key]!r}")
        if not key.startswith("_") and key not in (*kind.needed, *kind.passed, *kind.used):
            raise ValueError(f"{key} is unknown; allowed for {name}: {', '.join(kind.used)}")
    sampler = kind.build(config, steps if times is None else len(times))
    return sampler if times is None else replace(sampler, times=(*times, sampler.path.clean))


def _betas(config: Config) -> Betas:
    kind = config.get("beta_schedule", "scaled_linear")
    known = ("linear", "scaled_linear", "squaredcos_cap_v2")
    if kind not in known:
        raise ValueError(f"beta_schedule is {kind!r}; allowed: {', '.join(known)}")
    return Betas(
        kind=kind,
        start=config.get("beta_start", 0.00085),
        end=config.get("beta_end", 0.012),
        steps=config.get("num_train_timesteps", 1000),
        zero_snr=config.get("rescale_betas_zero_snr", False),
    )


def _prediction(config: Config) -> Prediction:
    names: dict[str, Prediction] = {"epsilon": "eps", "sample": "x0", "v_prediction": "v"}
    value = config.get("prediction_type", "epsilon")
    if value not in names:
        raise ValueError(f"prediction_type is {value!r}; allowed: {', '.join(names)}")
    return names[value]


def _vp_times(config: Config, steps: int) -> Times:
    origin = config.get("original_inference_steps", 50)
    return lcm_times(steps, origin, config.get("num_train_timesteps", 1000))


def _lcm(config: Config, steps: int) -> Sampler:
    scaling = config.get("timestep_scaling", 10.0)
    times = _vp_times(config, steps)
    return families.lcm(steps, times, _betas(config), _prediction(config), scaling)


def _tcd(config: Config, steps: int) -> Sampler:
    return families.tcd(steps, _vp_times(config, steps), _betas(config), _prediction(config))


def _cm(config: Config, steps: int) -> Sampler:
    low, high = config.get("sigma_min", 0.002), config.get("sigma_max", 80.0)
    return Sampler(
        path=Path(kind="edm", sigma_min=low),
        times=cm_times(steps, config.get("num_train_timesteps", 40), low, high),
        prediction="network",
        boundary=Boundary(kind="edm", sigma_data=config.get("sigma_data", 0.5)),
        clip=1.0 if config.get("clip_denoised", True) else None,
        time_input="250ln",
    )


def _scm(config: Config, steps: int) -> Sampler:
    """Its scheduler gets sigma_data F from the pipeline, which is the velocity."""
    path = Path(kind="trig", sigma_data=config.get("sigma_data", 0.5))
    return Sampler(path=path, times=trig_times(steps, path.last, 1.3), prediction="v")


def _flow(stochasticity: float) -> Callable[[Config, int], Sampler]:
    def build(config: Config, steps: int) -> Sampler:
        g = 1.0 if config.get("stochastic_sampling") else stochasticity
        return families.rectified_flow(steps, config.get("shift", 1.0), "v", "1000t", g)

    return build


def _h3(config: Config, steps: int) -> Sampler:
    times = rf_schedule(steps, config.get("shift", 12.0)).times
    return replace(families.minimax_h3(steps), times=times)


_VP_USED = (
    "num_train_timesteps",
    "beta_start",
    "beta_end",
    "beta_schedule",
    "original_inference_steps",
    "prediction_type",
    "rescale_betas_zero_snr",
)
_VP_NEEDED = {"trained_betas": None, "clip_sample": False, "thresholding": False}
_VP_PASSED = (
    "clip_sample_range",
    "dynamic_thresholding_ratio",
    "sample_max_value",
    "set_alpha_to_one",
    "skip_prk_steps",
    "steps_offset",
    "timestep_spacing",
    "interpolation_type",
    "use_karras_sigmas",
)
_FLOW_NEEDED = {
    "num_train_timesteps": 1000,
    "use_dynamic_shifting": False,
    "invert_sigmas": False,
    "shift_terminal": None,
    "use_karras_sigmas": False,
    "use_exponential_sigmas": False,
    "use_beta_sigmas": False,
}
_FLOW_PASSED = (
    "base_shift",
    "max_shift",
    "base_image_seq_len",
    "max_image_seq_len",
    "time_shift_type",
)
_KINDS = {
    "LCMScheduler": _Kind(
        build=_lcm,
        needed=_VP_NEEDED,
        passed=_VP_PASSED,
        used=(*_VP_USED, "timestep_scaling"),
    ),
    "TCDScheduler": _Kind(
        build=_tcd,
        needed={"trained_betas": None},
        passed=(*_VP_PASSED, "timestep_scaling", "clip_sample", "thresholding"),
        used=_VP_USED,
    ),
    "CMStochasticIterativeScheduler": _Kind(
        build=_cm,
        needed={"s_noise": 1.0, "rho": 7.0},
        passed=(),
        used=("num_train_timesteps", "sigma_min", "sigma_max", "sigma_data", "clip_denoised"),
    ),
    "SCMScheduler": _Kind(
        build=_scm,
        needed={"prediction_type": "trigflow"},
        passed=("num_train_timesteps",),
        used=("sigma_data",),
    ),
    "FlowMatchEulerDiscreteScheduler": _Kind(
        build=_flow(0.0),
        needed=_FLOW_NEEDED,
        passed=_FLOW_PASSED,
        used=("shift", "stochastic_sampling"),
    ),
    "FlowMatchLCMScheduler": _Kind(
        build=_flow(1.0),
        needed={**_FLOW_NEEDED, "scale_factors": None},
        passed=(*_FLOW_PASSED, "upscale_mode"),
        used=("shift",),
    ),
    "FlowMapEulerDiscreteScheduler": _Kind(
        build=_flow(0.0), needed={"num_train_timesteps": 1000}, passed=(), used=("shift",)
    ),
    "MiniMaxH3Scheduler": _Kind(build=_h3, needed={}, passed=(), used=("shift",)),
}

SCHEDULERS = tuple(sorted(_KINDS))
"""Class names of the diffusers schedulers that can be read."""
