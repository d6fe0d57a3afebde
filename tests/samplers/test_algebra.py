"""Identities of the algebra: boundaries, the kernel's two ends, and one model in three forms."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor

from onbeat.samplers import families
from onbeat.samplers.convert import (
    clean_predictor,
    convert_time,
    prediction_for,
    state_factor,
)
from onbeat.samplers.paths import Betas, Path, alphas_bar
from onbeat.samplers.predictions import Boundary, clean_scales
from onbeat.samplers.sampler import Sampler, coefficients, level_told, network_time
from onbeat.samplers.schedule import at_strength, trig_times

RF, EDM, TRIG = Path(kind="rf"), Path(kind="edm"), Path(kind="trig")
HALF = Path(kind="trig", sigma_data=0.5)
VP = Path(kind="vp", betas=Betas())
FORMS = (
    families.rectified_flow(2, prediction="v", time_input="1000t"),
    families.rectified_flow(2, prediction="data_v", time_input="1-t"),
    families.trigflow(),
    Sampler(path=TRIG, times=trig_times(2), prediction="v"),
    Sampler(path=HALF, times=trig_times(2), prediction="eps"),
    families.ect(),
    families.consistency_model(),
    families.lcm(),
    families.tcd(prediction="v"),
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.path.kind}-{form.prediction}")
def test_f_of_x_at_the_clean_time_is_x(form: Sampler) -> None:
    cx, cp = clean_scales(form.path, form.prediction, form.boundary, form.path.clean)
    assert cx == 1.0 and cp == 0.0


@pytest.mark.parametrize("path", [RF, EDM, HALF, VP], ids=lambda path: path.kind)
@pytest.mark.parametrize("prediction", ["x0", "eps", "v"])
def test_a_true_prediction_gives_back_x0(path: Path, prediction: Any) -> None:
    x0, eps = 0.7, -1.3
    for t in (1.0,) if path.kind != "vp" else (999.0, 400.0, 0.0):
        t = 0.8 if path.kind == "rf" else t
        a, b = path.scales(t)
        slope = {"rf": (-1.0, 1.0), "edm": (0.0, 1.0), "trig": (-b / 0.5, 0.5 * a)}
        da, db = slope.get(path.kind, (-b, a))
        value = {"x0": x0, "eps": eps, "v": da * x0 + db * eps}[prediction]
        cx, cp = clean_scales(path, prediction, Boundary(), t)
        assert cx * (a * x0 + b * eps) + cp * value == pytest.approx(x0)


@pytest.mark.parametrize("path", [RF, EDM, HALF, VP], ids=lambda path: path.kind)
def test_g_zero_is_ddim(path: Path) -> None:
    t, s = {"rf": (0.9, 0.4), "vp": (759.0, 259.0)}.get(path.kind, (1.2, 0.6))
    sampler = Sampler(path=path, times=(t, s, path.clean), stochasticity=0.0)
    (a_t, b_t), (a_s, b_s) = path.scales(t), path.scales(s)
    step = sampler.table[0]
    x, x0 = 1.7, 0.4
    eps = (x - a_t * x0) / b_t
    assert step.noise == 0.0
    assert step.next_clean * x0 + step.next_x * x == pytest.approx(a_s * x0 + b_s * eps)


@pytest.mark.parametrize("g", [0.0, 0.3, 0.99, 1.0])
@pytest.mark.parametrize("path", [RF, EDM, HALF, VP], ids=lambda path: path.kind)
def test_any_g_keeps_the_marginal(path: Path, g: float) -> None:
    """From a true x_t with a true x0, the next state has mean a(s) x0 and noise b(s)."""
    t, s = {"rf": (0.9, 0.4), "vp": (759.0, 259.0)}.get(path.kind, (1.2, 0.6))
    step = Sampler(path=path, times=(t, s, path.clean), stochasticity=g).table[0]
    (a_t, b_t), (a_s, b_s) = path.scales(t), path.scales(s)
    assert step.next_clean + step.next_x * a_t == pytest.approx(a_s)
    assert math.hypot(step.next_x * b_t, step.noise) == pytest.approx(b_s)


def test_g_one_is_the_consistency_kernel() -> None:
    step = families.self_forcing().table[0]
    assert step[3:] == (0.0, 1.0 - 0.9375, 0.9375)
    cm = families.consistency_model((80.0, 24.4, 0.002)).table[0]
    assert cm[3:5] == (0.0, 1.0)
    assert cm.noise == pytest.approx(math.sqrt(24.4**2 - 0.002**2), rel=1e-15)
    assert families.ect().table[0].noise == 0.821


def test_the_boundary_of_lcm_acts_at_the_start_of_training_only() -> None:
    path, boundary = VP, Boundary(kind="lcm")
    skip, _ = clean_scales(path, "x0", boundary, 19.0)
    assert skip == pytest.approx(6.9e-6, rel=0.01)
    skip, out = clean_scales(path, "x0", boundary, 0.0)
    assert (skip, out) == (1.0, 0.0)


def velocity(x: Tensor, told: Tensor) -> Tensor:
    """A network: any smooth function of x and 1000 t."""
    return torch.sin(1.7 * x) + x * (told / 1000.0).view(-1, 1) - 0.3


TIMES = (0.95, 0.6, 0.2, 0.01)


@pytest.mark.parametrize("path", [EDM, TRIG, HALF], ids=["edm", "trig", "trig-half"])
def test_forms_of_one_model_agree_after_round_trips(path: Path) -> None:
    rf = families.rectified_flow(2, prediction="v", time_input="1000t")
    x = torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    there = [convert_time(RF, t, path) for t in TIMES]
    assert [convert_time(path, t, RF) for t in there] == pytest.approx(TIMES, rel=1e-12)
    factors = torch.tensor([state_factor(RF, t, path) for t in TIMES], dtype=torch.float64)
    x_there = x * factors[:, None]
    other = families.ect() if path.kind == "edm" else replace(families.trigflow(), path=path)
    predict = clean_predictor(velocity, rf, path)

    def network(x_in: Tensor, told: Tensor) -> Tensor:
        """The same model as a network of the other form: undoes its input scale and time."""
        t = [level_told(other.time_input, float(value)) for value in told]
        scale = [other_scale(other, value) for value in t]
        y = x_in / torch.tensor(scale, dtype=torch.float64)[:, None]
        return prediction_for(other, y, t, predict(y, t))

    back = clean_predictor(network, other, RF)(x, TIMES)
    assert torch.allclose(predict(x_there, there), clean_predictor(velocity, rf, RF)(x, TIMES))
    assert torch.allclose(back, clean_predictor(velocity, rf, RF)(x, TIMES), atol=1e-11)


def other_scale(form: Sampler, t: float) -> float:
    return replace(form, times=(t, form.path.clean)).input_scales[0]


@pytest.mark.parametrize("g", [0.0, 1.0])
def test_sampling_gives_the_same_x0_on_every_path(g: float) -> None:
    rf = families.rectified_flow(4, 3.0, "v", "1000t", g)
    rf = replace(rf, times=(0.98, *rf.times[1:]))
    z = torch.randn(5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ends = []
    for path in (RF, EDM, TRIG, HALF):
        times = [convert_time(RF, t, path) for t in rf.times]
        sampler = Sampler(path=path, times=tuple(times), stochasticity=g)
        predict = clean_predictor(velocity, rf, path)
        x = z[:1] * path.scales(times[0])[1]
        for i, step in enumerate(sampler.table):
            clean = predict(x, times[i : i + 1])
            x = step.next_clean * clean + step.next_x * x + step.noise * z[i + 1 : i + 2]
        ends.append(x)
    assert all(torch.allclose(end, ends[0], atol=1e-10) for end in ends)


def test_conversions_that_cannot_be_are_errors() -> None:
    with pytest.raises(ValueError, match="target is 'vp'"):
        convert_time(RF, 0.5, VP)
    with pytest.raises(ValueError, match="t is 1.0, pure noise"):
        convert_time(RF, 1.0, EDM)
    with pytest.raises(ValueError, match="above the clean time"):
        prediction_for(families.trigflow(), torch.zeros(1, 2), [0.0], torch.zeros(1, 2))
    assert convert_time(RF, 1.0, TRIG) == pytest.approx(math.pi / 2)
    assert convert_time(VP, -1.0, RF) == 0.0


@pytest.mark.parametrize("kind", ["t", "1000t", "1-t", "ln/4", "250ln", "sin/(sin+cos)"])
def test_what_the_network_is_told_can_be_undone(kind: Any) -> None:
    for t in (0.9, 0.25, 0.01):
        assert level_told(kind, network_time(kind, t)) == pytest.approx(t)


def test_steps_need_not_be_neighbours() -> None:
    sampler = families.flow_map(4)
    assert coefficients(sampler, 0.9, 0.1)[3:] == pytest.approx((1 / 9, 8 / 9, 0.0))


def test_zero_snr_ends_in_pure_noise() -> None:
    products = alphas_bar(Betas(zero_snr=True))
    assert products[-1] == 0.0 and products[0] == pytest.approx(1 - 0.00085)
    with pytest.raises(ValueError, match="prediction is 'eps' at t = 999.0"):
        families.lcm(4, betas=Betas(zero_snr=True))
    table = families.tcd(4, betas=Betas(zero_snr=True), prediction="v").table
    assert table[0].clean_x == 0.0


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.path.kind}-{form.prediction}")
def test_a_sampler_is_plain_data(form: Sampler) -> None:
    assert form.table and form.input_scales and form.network_times
    data = msgspec.msgpack.encode(form)
    again = msgspec.msgpack.decode(data, type=Sampler)
    assert again == form and hash(again) == hash(form) and again.table == form.table
    assert set(msgspec.msgpack.decode(data)) == set(Sampler.__dataclass_fields__)


BAD: Sequence[tuple[str, dict[str, Any]]] = (
    ("times is", {"times": (0.5, 1.0, 0.0)}),
    ("times is", {"times": (1.0, 0.5)}),
    ("t is 1.5; allowed on the path 'rf'", {"times": (1.5, 0.0)}),
    ("stochasticity is 1.5", {"stochasticity": 1.5}),
    ("clip is 0.0", {"clip": 0.0}),
    ("prediction is 'eps' at t = 1.0", {"prediction": "eps"}),
    ("prediction is 'network'; allowed: on the paths edm, trig", {"prediction": "network"}),
    ("boundary is 'edm'; allowed: on the path 'edm'", {"boundary": Boundary(kind="edm")}),
)


@pytest.mark.parametrize(("message", "change"), BAD)
def test_errors_name_field_value_and_what_is_allowed(message: str, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=message):
        replace(families.rectified_flow(2), **change)


def test_paths_are_checked() -> None:
    for change, message in (
        ({"kind": "rf", "betas": Betas()}, "betas is"),
        ({"kind": "vp"}, "betas is None"),
        ({"kind": "rf", "sigma_min": 0.1}, "sigma_min is 0.1"),
        ({"kind": "trig", "sigma_data": 0.0}, "sigma_data is 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            Path(**change)
    with pytest.raises(ValueError, match="a whole number"):
        VP.check(3.5)
    with pytest.raises(ValueError, match="'network' on the path 'edm' needs the boundary 'edm'"):
        Sampler(path=EDM, times=(1.0, 0.0), prediction="network")
    with pytest.raises(ValueError, match="betas is 0.1 to 0.01"):
        Betas(start=0.1, end=0.01)


def test_strength_on_whole_steps_stays_whole() -> None:
    part = at_strength(families.lcm(4), 0.5)
    assert all(t == int(t) for t in part.times) and part.steps == 4
    with pytest.raises(ValueError, match="times is"):
        at_strength(families.lcm(4), 0.001)
