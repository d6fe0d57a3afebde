"""A sampler as plain frozen data: path, prediction, boundary rule, times, and the step's kernel.

It holds no step counter, no tensor and no generator; it can be compared, hashed and written to
MessagePack. From it follow the six coefficients of every step (`Sampler.table`), which is all that
the ragged step needs: rows of different families differ in these numbers alone.

One step from t to s goes without noise to e = (1 - g) s, and from there up to s with noise:

    x_e = a(e) x0 + b(e) eps,   eps = (x_t - a(t) x0) / b(t)
    x_s = a(s) / a(e) x_e + sqrt(b(s)^2 - (a(s) / a(e))^2 b(e)^2) z

g = 1 is the consistency kernel a(s) x0 + b(s) z, g = 0 is DDIM and the flow map (a network that
predicts the mean velocity u(x, t, s) is read as `v`). At the clean time the step is x0 exactly, and
nothing is drawn. Source: Zheng et al., Trajectory Consistency Distillation (2024), algorithm 4.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from onbeat.samplers.paths import Path
from onbeat.samplers.predictions import (
    NO_BOUNDARY,
    Boundary,
    Prediction,
    check_prediction,
    clean_scales,
    input_scale,
)

TimeInput = Literal["t", "1000t", "1-t", "ln/4", "250ln", "sin/(sin+cos)"]
"""What the network is told: the time itself, times 1000, its complement, a quarter of the logarithm
(EDM), 1000 times that (CM), or the rectified-flow time of a trigonometric one."""


class Coefficients(NamedTuple):
    """Of one step; order and meaning as in `onbeat.kernels.consistency_step`."""

    clean_x: float
    clean_prediction: float
    clip: float
    next_x: float
    next_clean: float
    noise: float


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """Classifier-free guidance. "embedded": the network is told `scale` (see `guidance_of`);
    "rows": each row is evaluated twice and its predictions are blended."""

    kind: Literal["none", "embedded", "rows"] = "none"
    scale: float = 1.0


NO_GUIDANCE = Guidance()


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """One modality's sampler: `times` are steps + 1 levels of `path`, falling to its clean time.

    stochasticity: g of the module's kernel, 0 to 1. clip: the clean latents are clamped to
    [-clip, clip] (pixel models); None for latents. Raises ValueError naming the field.
    """

    path: Path
    times: tuple[float, ...]
    prediction: Prediction = "x0"
    boundary: Boundary = NO_BOUNDARY
    stochasticity: float = 1.0
    clip: float | None = None
    time_input: TimeInput = "t"
    guidance: Guidance = NO_GUIDANCE

    def __post_init__(self) -> None:
        falling = all(t > s for t, s in pairwise(self.times))
        if len(self.times) < 2 or not falling or self.times[-1] != self.path.clean:
            raise ValueError(
                f"times is {self.times}; allowed: at least two, falling to {self.path.clean}"
            )
        for t in self.times:
            self.path.check(t)
        if not 0.0 <= self.stochasticity <= 1.0:
            raise ValueError(f"stochasticity is {self.stochasticity}; allowed: 0 to 1")
        if self.clip is not None and not self.clip > 0.0:
            raise ValueError(f"clip is {self.clip}; allowed: above 0, or none")
        check_prediction(self.path, self.prediction, self.times[0])
        self.boundary.check(self.path, self.prediction)

    @property
    def steps(self) -> int:
        """Evaluations of the network."""
        return len(self.times) - 1

    @cached_property
    def table(self) -> tuple[Coefficients, ...]:
        """Of every step."""
        return tuple(coefficients(self, t, s) for t, s in pairwise(self.times))

    @cached_property
    def network_times(self) -> tuple[float, ...]:
        """What the network is told at every level (the last one: as a flow map's target)."""
        return tuple(self.network_time(t) for t in self.times)

    @cached_property
    def input_scales(self) -> tuple[float, ...]:
        """What x is multiplied by on its way into the network, at every level."""
        parts = (self.path, self.prediction, self.boundary)
        return tuple(input_scale(*parts, t) for t in self.times)

    def network_time(self, t: float) -> float:
        """The level t as the network is told it."""
        return network_time(self.time_input, t)


def network_time(kind: TimeInput, t: float) -> float:
    """The level t as a network of this kind is told it; a logarithm of 0 is minus infinity."""
    if kind in ("ln/4", "250ln"):
        return (0.25 if kind == "ln/4" else 250.0) * (math.log(t) if t > 0.0 else -math.inf)
    if kind == "sin/(sin+cos)":
        return math.sin(t) / (math.sin(t) + math.cos(t))
    return {"t": t, "1000t": 1000.0 * t, "1-t": 1.0 - t}[kind]


def level_told(kind: TimeInput, told: float) -> float:
    """The level that a network is told as `told`: the inverse of `network_time`."""
    if kind in ("ln/4", "250ln"):
        return math.exp(told * (4.0 if kind == "ln/4" else 0.004))
    if kind == "sin/(sin+cos)":
        return math.atan2(told, 1.0 - told)
    return {"t": told, "1000t": told / 1000.0, "1-t": 1.0 - told}[kind]


def coefficients(sampler: Sampler, t: float, s: float) -> Coefficients:
    """Of the step from t to s, which need not be neighbours on the schedule."""
    path = sampler.path
    clean = clean_scales(path, sampler.prediction, sampler.boundary, t)
    clip = math.inf if sampler.clip is None else sampler.clip
    return Coefficients(*clean, clip, *_transition(path, t, s, sampler.stochasticity))


def _transition(path: Path, t: float, s: float, g: float) -> tuple[float, float, float]:
    """(next_x, next_clean, noise) of the module's kernel."""
    if s == path.clean:
        return 0.0, 1.0, 0.0
    e = path.between(s, g)
    (a_t, b_t), (a_e, b_e), (a_s, b_s) = path.scales(t), path.scales(e), path.scales(s)
    scale = a_s / a_e
    noise = b_s if b_e == 0.0 else math.sqrt(max(b_s * b_s - (scale * b_e) ** 2, 0.0))
    if e == s:
        noise = 0.0
    if e == path.clean:
        return 0.0, a_s, noise
    kept = b_e / b_t
    return scale * kept, scale * (a_e - a_t * kept), noise


@lru_cache(maxsize=1024)
def shared(sampler: Sampler) -> Sampler:
    """The first equal sampler that was seen: its table is computed once."""
    return sampler
