"""Networks as functions of a rule: what a family's network is fed, told and read as, in tensors.

The same numbers as `onbeat.samplers.predictions` and `Sampler.network_time`, for whole tensors of
times, with gradients. `causal_function` does it for a model of the registry by its contract. No
weights and no losses here.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from onbeat.kernels.paged_attention import KVPages
from onbeat.models.spec import CausalModel
from onbeat.samplers.distill.rules.flow import scales, slopes
from onbeat.samplers.distill.rules.rule import Function, Latents, Query, spread
from onbeat.samplers.sampler import Sampler

Network = Callable[[Latents, Mapping[str, Tensor]], Latents]
"""(scaled latents, what is told of the times, float32 [*rows]) -> outputs."""


def clean_function(network: Network, form: Sampler) -> Function:
    """f(x, t) of a network trained as `form` says (its times do not matter); gradients pass."""

    def run(query: Query) -> Latents:
        scaled = {n: x * spread(input_scale(form, query.t[n]), x) for n, x in query.x.items()}
        told = {n: told_time(form, t).float() for n, t in query.t.items()}
        output = network(scaled, told)
        out = {}
        for name, x in query.x.items():
            of_x, of_output = clean_scales(form, query.t[name])
            out[name] = spread(of_x, x) * x + spread(of_output, x) * output[name]
        return out

    return run


def causal_function(model: CausalModel, form: Sampler, pooled: Tensor, kv: KVPages) -> Function:
    """f(x, t) of r chunks of a causal model over its cache, [r, n, d] at times [r]; `pooled` and
    `kv` as `CausalModel.denoise` takes them. Gradients pass if the model lets them: toybox as it is
    served does not, and can be a teacher alone."""
    return clean_function(lambda x, told: model.denoise(x, dict(told), pooled, kv), form)


def clean_scales(form: Sampler, t: Tensor) -> tuple[Tensor, Tensor]:
    """(cx, cp) at times t, float64: x0 is cx x + cp output."""
    t, path = t.double(), form.path
    if form.boundary.kind == "edm":
        sd, above = form.boundary.sigma_data, t - path.sigma_min
        return sd**2 / (above.square() + sd**2), above * sd / (t.square() + sd**2).sqrt()
    cx, cp = _plain(form, t)
    if form.boundary.kind == "none":
        return cx, cp
    sd, scaled = form.boundary.sigma_data, form.boundary.scaling * t.clamp(min=0.0)
    skip = sd**2 / (scaled.square() + sd**2)
    out = scaled / (scaled.square() + sd**2).sqrt()
    return skip + out * cx, out * cp


def _plain(form: Sampler, t: Tensor) -> tuple[Tensor, Tensor]:
    a, b = scales(form.path, t)
    if form.prediction == "x0":
        return torch.zeros_like(a), torch.ones_like(a)
    if form.prediction == "eps":
        return 1.0 / a, -b / a
    if form.path.kind == "vp":
        return a, -b
    if form.prediction == "network":
        return a, -b
    slope_a, slope_b = slopes(form.path, t)
    sign = -1.0 if form.prediction == "data_v" else 1.0
    whole = a * slope_b - b * slope_a
    return slope_b / whole, -sign * b / whole


def input_scale(form: Sampler, t: Tensor) -> Tensor:
    """c_in at times t, float64."""
    if form.boundary.kind == "edm":
        return 1.0 / (t.double().square() + form.boundary.sigma_data**2).sqrt()
    scale = 1.0 / form.path.sigma_data if form.prediction == "network" else 1.0
    return torch.full_like(t.double(), scale)


def told_time(form: Sampler, t: Tensor) -> Tensor:
    """What the network is told of times t, float64."""
    t, kind = t.double(), form.time_input
    if kind in ("ln/4", "250ln"):
        return (0.25 if kind == "ln/4" else 250.0) * t.log()
    if kind == "sin/(sin+cos)":
        return t.sin() / (t.sin() + t.cos())
    return {"t": t, "1000t": 1000.0 * t, "1-t": 1.0 - t}[kind]
