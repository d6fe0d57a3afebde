"""A diffusers scheduler that steps with our samplers, for use inside diffusers pipelines.

It keeps the interface of diffusers, not its state: a step is found by the timestep that the
pipeline passes, so that it may be repeated or skipped; noise is a function of the seed, the row and
the step, drawn in float32, so that a row does not depend on its batch, on dtype or on earlier
draws. Needs diffusers; only this module imports it.

    pipe.scheduler = OnbeatScheduler.replacing(pipe.scheduler)
"""
# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-any-return, attr-defined"

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.schedulers.scheduling_utils import SchedulerMixin
from diffusers.utils.outputs import BaseOutput
from torch import Tensor

from onbeat.kernels.consistency_step import consistency_step
from onbeat.samplers.adapters.config import read_sampler
from onbeat.samplers.noise import noise_keys, renoise_step
from onbeat.samplers.sampler import Sampler, level_told
from onbeat.samplers.schedule import at_strength, karras, shifted, trig_times

Generators = torch.Generator | Sequence[torch.Generator] | None
_SEED_BITS = 63


@dataclass
class OnbeatSchedulerOutput(BaseOutput):
    """`prev_sample`: the next latents. `denoised` (also `pred_original_sample`): x0 as
    predicted."""

    prev_sample: Tensor
    denoised: Tensor
    pred_original_sample: Tensor


class OnbeatScheduler(SchedulerMixin, ConfigMixin):
    """`scheduler`: the config of the diffusers scheduler whose place it takes, `_class_name`
    included (see `onbeat.samplers.adapters.config` for those that are read). `seed`: of the noise,
    where the pipeline passes no generator; of generators only the initial seed is used."""

    order = 1

    @register_to_config
    def __init__(self, scheduler: dict[str, Any], seed: int = 0) -> None:
        if type(seed) is not int or not 0 <= seed < 1 << _SEED_BITS:
            raise ValueError(f"seed is {seed!r}; allowed: whole numbers, 0 to 2^{_SEED_BITS} - 1")
        self._use(read_sampler(scheduler, 1))
        self._step_index: int | None = None
        self._begin_index: int | None = None
        if "sigma_data" in scheduler:
            self.register_to_config(sigma_data=scheduler["sigma_data"])

    @classmethod
    def replacing(cls, other: Any, seed: int = 0) -> "OnbeatScheduler":
        """One that samples as `other`, a scheduler of diffusers, is documented to."""
        return cls(scheduler={**other.config, "_class_name": type(other).__name__}, seed=seed)

    @property
    def sampler(self) -> Sampler:
        """The sampler in use."""
        return self._sampler

    @property
    def init_noise_sigma(self) -> float:
        return self._sampler.path.start_scale(self._sampler.times[0])

    @property
    def step_index(self) -> int | None:
        """Steps taken since `set_timesteps`, for callbacks; nothing depends on it."""
        return self._step_index

    @property
    def begin_index(self) -> int | None:
        return self._begin_index

    def set_begin_index(self, begin_index: int = 0) -> None:
        self._begin_index = begin_index

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: torch.device | str | None = None,
        timesteps: Sequence[float] | None = None,
        sigmas: Sequence[float] | None = None,
        strength: float = 1.0,
        max_timesteps: float | None = None,
        intermediate_timesteps: float | None = None,
        mu: float | None = None,
    ) -> None:
        """The schedule: `num_inference_steps` evaluations, or explicit ones as diffusers documents
        them. `timesteps`: as the network is told them, never shifted (places 0 to 39 of the Karras
        grid for consistency models); `sigmas`: a flow grid, shifted by the config's shift once.

        strength below 1 begins part of the way down (`at_strength`). max_timesteps and
        intermediate_timesteps: the trigonometric levels that SANA-Sprint's pipeline passes. mu: of
        dynamic shifting, which the reader of configs refuses; without it, it means nothing.
        """
        asked = num_inference_steps
        if asked is not None and (type(asked) is not int or asked < 1):
            raise ValueError(f"num_inference_steps is {asked!r}; allowed: a whole number from 1 on")
        levels: tuple[float, ...] | None = None
        if timesteps is not None:
            levels = self._levels_of_timesteps([float(t) for t in timesteps])
        elif sigmas is not None:
            levels = self._levels_of_sigmas([float(s) for s in sigmas])
        elif max_timesteps is not None and num_inference_steps is not None:
            first = min(float(max_timesteps), self._sampler.path.last)
            levels = trig_times(num_inference_steps, first, intermediate_timesteps)[:-1]
        if levels is None and num_inference_steps is None:
            raise ValueError("num_inference_steps is None; allowed: a number, or explicit levels")
        steps = num_inference_steps if num_inference_steps is not None else len(levels or ())
        if levels is not None and steps != len(levels):
            raise ValueError(f"num_inference_steps is {steps}; allowed: {len(levels)}, as levels")
        self._use(at_strength(read_sampler(self.config.scheduler, steps, levels), strength), device)
        self.num_inference_steps = steps
        self._step_index = self._begin_index = None

    def _levels_of_timesteps(self, timesteps: list[float]) -> tuple[float, ...]:
        config = self.config.scheduler
        if self._sampler.path.kind == "edm":
            last = config.get("num_train_timesteps", 40) - 1
            ends = config.get("sigma_min", 0.002), config.get("sigma_max", 80.0)
            return tuple(karras(place / last, *ends) for place in reversed(timesteps))
        return tuple(level_told(self._sampler.time_input, t) for t in timesteps)

    def _levels_of_sigmas(self, sigmas: list[float]) -> tuple[float, ...]:
        """Flow grids are shifted; MiniMax-H3's come whole, with the clean level as the last."""
        config = self.config.scheduler
        if config["_class_name"] == "MiniMaxH3Scheduler":
            return tuple(sigmas[:-1])
        return shifted(sigmas, config.get("shift", 1.0))

    def _use(self, sampler: Sampler, device: torch.device | str | None = None) -> None:
        self._sampler = sampler
        kind, told = sampler.path.kind, sampler.network_times
        dtype = {"vp": torch.int64, "edm": torch.float64}.get(kind, torch.float32)
        # SANA-Sprint's pipeline expects the clean time as a last entry, and leaves it out itself
        told = told if kind == "trig" else told[:-1]
        self.timesteps = torch.tensor(told, dtype=torch.float64).to(device=device, dtype=dtype)

    def _index(self, timestep: Any) -> int:
        """The evaluation whose timestep is nearest."""
        told = float(timestep.flatten()[0]) if torch.is_tensor(timestep) else float(timestep)
        known = self._sampler.network_times[:-1]
        return min(range(len(known)), key=lambda i: abs(known[i] - told))

    def scale_model_input(self, sample: Tensor, timestep: Any = None) -> Tensor:
        scale = 1.0 if timestep is None else self._sampler.input_scales[self._index(timestep)]
        return sample if scale == 1.0 else sample * scale

    def step(
        self,
        model_output: Tensor,
        timestep: Any,
        sample: Tensor,
        generator: Generators = None,
        return_dict: bool = True,
    ) -> OnbeatSchedulerOutput | tuple[Tensor, Tensor]:
        """One step of every row, from `timestep` to the next level; calls may be repeated."""
        index, rows = self._index(timestep), sample.shape[0]
        table = torch.tensor([self._sampler.table[index]] * rows, dtype=torch.float64)
        after, clean = consistency_step(
            sample.float().flatten(1),
            model_output.float().flatten(1),
            table.to(sample.device),
            self._keys(generator, rows, index).to(sample.device),
        )
        self._step_index = index + 1
        after = after.view_as(sample).to(sample.dtype)
        clean = clean.view_as(sample).to(sample.dtype)
        if not return_dict:
            return after, clean
        return OnbeatSchedulerOutput(prev_sample=after, denoised=clean, pred_original_sample=clean)

    def _keys(self, generator: Generators, rows: int, index: int) -> Tensor:
        """A row is known by its own generator's seed, or by its place under a common one."""
        if isinstance(generator, Sequence):
            seeds, streams = [g.initial_seed() for g in generator], [0] * rows
        else:
            seed = self.config.seed if generator is None else generator.initial_seed()
            seeds, streams = [seed] * rows, list(range(rows))
        seeds = [seed % (1 << _SEED_BITS) for seed in seeds]
        return noise_keys(seeds, streams, [0] * rows, 0, [renoise_step(index)] * rows)

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """a x0 + b noise at any timesteps, one per row or one for all; nothing is looked up."""
        told = [float(t) for t in timesteps.flatten()]
        levels = [level_told(self._sampler.time_input, t) for t in told]
        scales = torch.tensor([self._sampler.path.scales(t) for t in levels], dtype=torch.float64)
        shape = (2, -1, *[1] * (original_samples.dim() - 1))
        a, b = scales.T.float().to(original_samples.device).reshape(shape)
        mixed = a * original_samples.float() + b * noise.float()
        return mixed.to(original_samples.dtype)

    def scale_noise(self, sample: Tensor, timestep: Tensor, noise: Tensor) -> Tensor:
        """`add_noise` as flow-matching pipelines call it."""
        return self.add_noise(sample, noise, timestep)
