"""How a model of the registry is sampled: from the family that each modality names to samplers.

What it is: names of families (`onbeat.models.spec.Family`) to functions of families.py, what a
network is told beside its times, and a check before anything runs. What it is not: a place for
other settings of a family: a model that needs them names a family of its own here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from onbeat.kernels._dispatch import place
from onbeat.samplers import families
from onbeat.samplers.consistency import commit_latents, inputs_of, targets_of, times_of
from onbeat.samplers.predictions import input_scale
from onbeat.samplers.sampler import Sampler
from onbeat.samplers.schedule import Times, cm_times, karras, trig_times
from onbeat.samplers.state import ChunkState

Inputs = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Latents as the network is fed them, and what it is told: both by name, float32 of r rows."""


class Served(Protocol):
    """A modality of a served model."""

    @property
    def name(self) -> str: ...
    @property
    def shift(self) -> float: ...
    @property
    def family(self) -> str: ...
    @property
    def target_name(self) -> str | None: ...


def _ect_times(steps: int) -> Times:
    """80 and 0.821 for two steps (Geng et al., ECT, 2024); else a Karras grid down to 0."""
    return (80.0, 0.821, 0.0) if steps == 2 else (*(karras(i / steps) for i in range(steps)), 0.0)


FAMILIES: Mapping[str, Callable[[int, float], Sampler]] = {
    "rectified_flow": families.rectified_flow,
    "self_forcing": families.self_forcing,
    "raven": families.raven,
    "minimax_h3": families.minimax_h3,
    "flow_map": families.flow_map,
    "rcm": lambda steps, _: families.rcm(steps),
    "sana_sprint": lambda steps, _: families.sana_sprint(steps),
    "consistency_model": lambda steps, _: families.consistency_model(cm_times(steps)),
    "ect": lambda steps, _: families.ect(_ect_times(steps)),
    "lcm": lambda steps, _: families.lcm(steps),
    "tcd": lambda steps, _: families.tcd(steps),
    "trigflow": lambda steps, _: families.trigflow(trig_times(steps)),
}
"""(steps, shift) -> a sampler. `shift` counts for rectified flow alone."""


def served_samplers(modalities: Iterable[Served], steps: int) -> dict[str, Sampler]:
    """One sampler per modality, all of `steps` evaluations.

    Raises ValueError for an unknown family, or steps that a family does not have.
    """
    return {m.name: _sampler(m, steps) for m in modalities}


def _sampler(modality: Served, steps: int) -> Sampler:
    make = FAMILIES.get(modality.family)
    if make is None:
        raise ValueError(
            f"family of {modality.name} is {modality.family!r}; allowed: {', '.join(FAMILIES)}"
        )
    return make(steps, modality.shift)


def check_served(modalities: Sequence[Served], max_steps: int, context_noise: float) -> None:
    """Raises ValueError, before anything is served, for a family, a number of steps up to
    `max_steps` or a level of commits that some modality does not have."""
    for steps in range(1, max_steps + 1):
        for sampler in served_samplers(modalities, steps).values():
            sampler.path.check(context_noise)


def step_inputs(modalities: Sequence[Served], states: Sequence[ChunkState]) -> Inputs:
    """What the network gets for the next step of each row; flow maps are told where it goes."""
    told, ends = times_of(states), targets_of(states) if _maps(modalities) else {}
    return inputs_of(states), told | {to: ends[name] for name, to in _maps(modalities)}


def commit_inputs(
    modalities: Sequence[Served], states: Sequence[ChunkState], context_noise: float
) -> Inputs:
    """What the network gets for the commit of finished chunks; a flow map goes nowhere then."""
    latents, told = commit_latents(states, context_noise)
    for name, x in latents.items():
        scales = [_input_scale(s.samplers[name], context_noise) for s in states]
        if any(scale != 1.0 for scale in scales):
            column = place(torch.tensor(scales, dtype=torch.float32), x.device)
            latents[name] = x * column[:, None, None]
    return latents, told | {to: told[name] for name, to in _maps(modalities)}


def _maps(modalities: Sequence[Served]) -> list[tuple[str, str]]:
    return [(m.name, m.target_name) for m in modalities if m.target_name is not None]


def _input_scale(sampler: Sampler, level: float) -> float:
    return input_scale(sampler.path, sampler.prediction, sampler.boundary, level)
