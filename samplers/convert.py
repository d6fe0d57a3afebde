"""One network in several forms: rectified flow, trigonometric flow and EDM are the same model.

Two paths agree where noise / signal is equal; there the states differ by a factor, and x0 does not
differ at all. So a network trained in one form predicts x0 for any other path, and its prediction
can be written in the other form. All scalars float64. A step with stochasticity 0 or 1 is the same
on every path; with one in between it is not, because (1 - g) s means another level.
Sources: Lu and Song, sCM (2024), section 3; Zheng et al., rCM (2025), for RF and trigonometric
time.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from onbeat.samplers.paths import Path
from onbeat.samplers.predictions import clean_scales, input_scale
from onbeat.samplers.sampler import Sampler

Network = Callable[[Tensor, Tensor], Tensor]
"""(scaled x [r, ...], what it is told of the time, float64 [r]) -> prediction [r, ...]."""


def convert_time(source: Path, t: float, target: Path) -> float:
    """The time on `target` with the noise / signal of `t` on `source`.

    Clean goes to clean. Raises ValueError for a target 'vp' (whole steps only) and for pure noise
    on a target 'edm' (no largest sigma).
    """
    if target.kind == "vp":
        raise ValueError("target is 'vp'; allowed: rf, edm, trig")
    if t == source.clean:
        return target.clean
    a, b = source.scales(t)
    if target.kind == "rf":
        return b / (a + b)
    if target.kind == "trig":
        return math.atan2(b, a * target.sigma_data)
    if a <= 0.0:
        raise ValueError(f"t is {t}, pure noise; allowed on the path 'edm': a finite sigma")
    return b / a


def state_factor(source: Path, t: float, target: Path) -> float:
    """x on `target` is this times x on `source` at `t`."""
    a, b = source.scales(t)
    a_target, b_target = target.scales(convert_time(source, t, target))
    return a_target / a if a >= b else b_target / b


def clean_predictor(network: Network, form: Sampler, path: Path) -> Callable[..., Tensor]:
    """(x on `path` [r, ...], its times, float [r]) -> x0, from a network of another form.

    form: how the network was trained (its path, prediction, boundary, time input; not its times).
    """

    def predict(x: Tensor, times: Sequence[float]) -> Tensor:
        own = [convert_time(path, t, form.path) for t in times]
        x_own = x * _rows([state_factor(path, t, form.path) for t in times], x)
        parts = (form.path, form.prediction, form.boundary)
        told = torch.tensor([form.network_time(t) for t in own], dtype=torch.float64)
        scale = _rows([input_scale(*parts, t) for t in own], x)
        output = network(x_own * scale, told)
        both = [clean_scales(*parts, t) for t in own]
        return _rows([c[0] for c in both], x) * x_own + _rows([c[1] for c in both], x) * output

    return predict


def prediction_for(form: Sampler, x: Tensor, times: Sequence[float], x0: Tensor) -> Tensor:
    """The output that a network of `form` has to give at x [r, ...] and `times` [r] for this x0.

    Raises ValueError at the clean time, where the output has no say.
    """
    both = [clean_scales(form.path, form.prediction, form.boundary, t) for t in times]
    if any(cp == 0.0 for _, cp in both):
        raise ValueError(f"t is {list(times)}; allowed: above the clean time {form.path.clean}")
    return (x0 - _rows([c[0] for c in both], x) * x) / _rows([c[1] for c in both], x)


def _rows(values: Sequence[float], x: Tensor) -> Tensor:
    return torch.tensor(values, dtype=x.dtype, device=x.device).view(-1, *[1] * (x.dim() - 1))
