"""The families of few-step models, each as a function that gives a `Sampler`.

What each model was trained with: its path, prediction, boundary rule, times, and what its network
is told. Formulas in one table: docs/samplers.md. Every function is cached: equal arguments give the
same object. Any field can be changed afterwards with dataclasses.replace.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

from onbeat.samplers.paths import Betas, Path
from onbeat.samplers.predictions import Boundary, Prediction
from onbeat.samplers.sampler import Sampler, TimeInput
from onbeat.samplers.schedule import Times, cm_times, lcm_times, rf_schedule, trig_times

RF = Path(kind="rf")
SIGMA_DATA = 0.5
STABLE_DIFFUSION = Betas()
CM_TWO_STEPS = cm_times(2)
SCM_TWO_STEPS = trig_times(2)


class Shifted(Protocol):
    """A modality of a rectified-flow model: its name and the time shift of its schedule."""

    @property
    def name(self) -> str: ...
    @property
    def shift(self) -> float: ...


def rf_samplers(modalities: Iterable[Shifted], steps: int) -> dict[str, Sampler]:
    """Of a model that predicts x0 and is told t (toybox): one step index, a shift per modality."""
    return {m.name: rectified_flow(steps, m.shift) for m in modalities}


@lru_cache(maxsize=256)
def rectified_flow(
    steps: int,
    shift: float = 1.0,
    prediction: Prediction = "x0",
    time_input: TimeInput = "t",
    stochasticity: float = 1.0,
) -> Sampler:
    """Rectified flow on a uniform grid, shifted once. stochasticity 1: the consistency kernel of
    RAVEN, Self-Forcing and ping-pong sampling; 0: Euler steps along v."""
    return Sampler(
        path=RF,
        times=rf_schedule(steps, shift).times,
        prediction=prediction,
        stochasticity=stochasticity,
        time_input=time_input,
    )


@lru_cache(maxsize=64)
def self_forcing(steps: int = 4, shift: float = 5.0) -> Sampler:
    """Causal Wan models of Self-Forcing (Huang et al., 2025): velocity, told 1000 t."""
    return rectified_flow(steps, shift, "v", "1000t")


@lru_cache(maxsize=64)
def raven(steps: int = 4, shift: float = 12.0) -> Sampler:
    """Streaming student of MiniMax-H3 (RAVEN, 2026): x0, told 1 - t. Shift 12 video, 3 audio."""
    return rectified_flow(steps, shift, "x0", "1-t")


@lru_cache(maxsize=64)
def minimax_h3(steps: int, shift: float = 12.0) -> Sampler:
    """MiniMax-H3 itself: velocity towards the data, Euler steps, told 1 - t."""
    return rectified_flow(steps, shift, "data_v", "1-t", 0.0)


@lru_cache(maxsize=64)
def flow_map(steps: int, shift: float = 1.0) -> Sampler:
    """MeanFlow (Geng et al., 2025) and AnyFlow: the network is told t and the target time, and
    predicts the mean velocity between them; x_r = x_t - (t - r) u."""
    return rectified_flow(steps, shift, "v", "1000t", 0.0)


@lru_cache(maxsize=64)
def rcm(steps: int = 4) -> Sampler:
    """rCM on a rectified-flow network (Zheng et al., 2025): trigonometric times atan(80), 1.5, 1.4,
    1.0 as rectified-flow ones; velocity, told 1000 t."""
    angles = (math.atan(80.0), 1.5, 1.4, 1.0)
    if not 1 <= steps <= len(angles):
        raise ValueError(f"steps is {steps}; allowed: 1 to {len(angles)}")
    return _from_angles((*angles[:steps], 0.0))


@lru_cache(maxsize=64)
def sana_sprint(steps: int = 2, first: float = math.pi / 2, middle: float | None = 1.3) -> Sampler:
    """SANA-Sprint (Chen et al., 2025): its network is a rectified-flow one, and its trigonometric
    step on latents of scale 0.5 is ours on latents of scale 1 (see docs/samplers.md)."""
    return _from_angles(trig_times(steps, first, middle), "t")


def _from_angles(angles: Times, time_input: TimeInput = "1000t") -> Sampler:
    times = tuple(math.sin(t) / (math.sin(t) + math.cos(t)) for t in angles)
    return Sampler(path=RF, times=times, prediction="v", time_input=time_input)


@lru_cache(maxsize=64)
def consistency_model(
    times: Times = CM_TWO_STEPS, clip: float | None = None, sigma_min: float = 0.002
) -> Sampler:
    """CM (Song et al., 2023) and iCT (Song and Dhariwal, 2023): EDM scalings whose boundary is at
    sigma_min; noise of std sqrt(s^2 - sigma_min^2); told 250 ln sigma. clip 1 for pixel models."""
    return Sampler(
        path=Path(kind="edm", sigma_min=sigma_min),
        times=times,
        prediction="network",
        boundary=Boundary(kind="edm", sigma_data=SIGMA_DATA),
        clip=clip,
        time_input="250ln",
    )


@lru_cache(maxsize=64)
def ect(times: Times = (80.0, 0.821, 0.0)) -> Sampler:
    """ECT (Geng et al., 2024): EDM scalings, boundary at 0, noise s z, told ln(sigma) / 4."""
    return Sampler(
        path=Path(kind="edm"),
        times=times,
        prediction="network",
        boundary=Boundary(kind="edm", sigma_data=SIGMA_DATA),
        time_input="ln/4",
    )


@lru_cache(maxsize=64)
def lcm(
    steps: int = 4,
    times: Times | None = None,
    betas: Betas = STABLE_DIFFUSION,
    prediction: Prediction = "eps",
    scaling: float = 10.0,
) -> Sampler:
    """LCM (Luo et al., 2023): noise prediction on the path of Stable Diffusion, told the step."""
    return Sampler(
        path=Path(kind="vp", betas=betas),
        times=lcm_times(steps, training=betas.steps) if times is None else times,
        prediction=prediction,
        boundary=Boundary(kind="lcm", sigma_data=SIGMA_DATA, scaling=scaling),
    )


@lru_cache(maxsize=64)
def tcd(
    steps: int = 4,
    times: Times | None = None,
    betas: Betas = STABLE_DIFFUSION,
    prediction: Prediction = "eps",
    stochasticity: float = 0.3,
) -> Sampler:
    """TCD (Zheng et al., 2024) and Hyper-SD: no boundary rule; stochasticity is their gamma."""
    return Sampler(
        path=Path(kind="vp", betas=betas),
        times=lcm_times(steps, training=betas.steps) if times is None else times,
        prediction=prediction,
        stochasticity=stochasticity,
    )


@lru_cache(maxsize=64)
def trigflow(times: Times = SCM_TWO_STEPS, sigma_data: float = SIGMA_DATA) -> Sampler:
    """sCM (Lu and Song, 2024): the network sees x / sigma_data and t, and predicts F."""
    return Sampler(path=Path(kind="trig", sigma_data=sigma_data), times=times, prediction="network")
