"""Tensor forms of networks against the scalar ones that sampling uses."""

import pytest
import torch
from torch import Tensor

from onbeat.kernels.paged_attention import KVPages
from onbeat.models.toybox.model import Toybox
from onbeat.samplers import families
from onbeat.samplers.distill.generate import empty_pages, page_table
from onbeat.samplers.distill.rules.flow import mix, scales, velocity
from onbeat.samplers.distill.rules.rule import Query
from onbeat.samplers.distill.training.forms import (
    causal_function,
    clean_function,
    clean_scales,
    input_scale,
    told_time,
)
from onbeat.samplers.predictions import clean_scales as scalar_scales
from onbeat.samplers.predictions import input_scale as scalar_input
from onbeat.samplers.sampler import Sampler

FORMS = {
    "toybox": families.rectified_flow(4, 3.0),
    "raven": families.raven(),
    "h3": families.minimax_h3(4),
    "wan": families.self_forcing(),
    "cm": families.consistency_model(),
    "ect": families.ect(),
    "lcm": families.lcm(),
    "tcd v": families.tcd(prediction="v"),
    "sCM": families.trigflow(),
}


@pytest.mark.parametrize("name", FORMS)
def test_coefficients_are_those_of_sampling(name: str) -> None:
    form = FORMS[name]
    times = torch.tensor(form.times[:-1], dtype=torch.float64)
    rows = [scalar_scales(form.path, form.prediction, form.boundary, t) for t in times.tolist()]
    want = torch.tensor(rows, dtype=torch.float64).T
    torch.testing.assert_close(torch.stack(clean_scales(form, times)), want)
    scale = [scalar_input(form.path, form.prediction, form.boundary, t) for t in times.tolist()]
    torch.testing.assert_close(input_scale(form, times), torch.tensor(scale, dtype=torch.float64))
    told = [form.network_time(t) for t in times.tolist()]
    torch.testing.assert_close(told_time(form, times), torch.tensor(told, dtype=torch.float64))
    ab = torch.tensor([form.path.scales(t) for t in times.tolist()], dtype=torch.float64).T
    torch.testing.assert_close(torch.stack(scales(form.path, times)), ab)


@pytest.mark.parametrize("name", ["cm", "ect", "wan", "sCM"])
def test_at_the_clean_time_the_function_gives_back_its_input(name: str) -> None:
    form: Sampler = FORMS[name]
    x = {"x": torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(0))}
    t = {"x": torch.full((3,), form.path.clean, dtype=torch.float64)}

    def network(latents: object, told: object) -> dict[str, Tensor]:
        return {"x": torch.full((3, 2, 5), 1e3)}

    torch.testing.assert_close(dict(clean_function(network, form)(Query(x=x, t=t))), x)


@pytest.mark.parametrize("name", ["toybox", "ect", "sCM"])
def test_velocities_are_slopes_of_the_path(name: str) -> None:
    path, h = FORMS[name].path, 1e-5
    g = torch.Generator().manual_seed(1)
    x0, z = (torch.randn(4, 3, generator=g, dtype=torch.float64) for _ in range(2))
    t = torch.tensor([0.2, 0.5, 0.7, 0.9], dtype=torch.float64)
    want = (mix(path, x0, z, t + h) - mix(path, x0, z, t - h)) / (2 * h)
    got = velocity(path, mix(path, x0, z, t), x0, t)
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_a_model_of_the_registry_is_a_teacher_by_its_contract() -> None:
    model = Toybox.random(0)
    spec, rows = model.spec, 2
    k, v = empty_pages(spec, rows)
    table = page_table(spec, rows, 0)
    encoded = [model.encode_prompt("a red ball")] * rows
    model.prefill_prompt(encoded, KVPages(k=k, v=v, page_table=table, write_pages=table[:, 0]))
    kv = KVPages(k=k, v=v, page_table=table, write_pages=torch.full((rows,), -1))
    pooled = torch.stack([e.pooled for e in encoded])
    teacher = causal_function(model, families.rectified_flow(2), pooled, kv)
    g = torch.Generator().manual_seed(0)
    x = {m.name: torch.randn(rows, m.tokens, m.dim, generator=g) for m in spec.modalities}
    half = {name: torch.full((rows,), 0.5, dtype=torch.float64) for name in x}
    told = {name: t.float() for name, t in half.items()}
    want = model.denoise(x, told, pooled, kv)
    got = teacher(Query(x=x, t=half))
    for name in x:
        torch.testing.assert_close(got[name], want[name])
