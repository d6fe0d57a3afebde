"""Flow matching, sums of rules, and preferences: losses and gradients in closed form."""

import math

import numpy as np
import pytest
import torch

from onbeat.samplers.distill.rules.anchor import Choice, FlowMatching, Sum
from onbeat.samplers.distill.rules.flow import Space
from onbeat.samplers.distill.rules.preference import Preference
from onbeat.samplers.distill.rules.rule import Batch, Latents, Loss, Models, Moment, Query
from onbeat.samplers.paths import Path
from tests.samplers.distill.exact import posterior, sigmoid
from tests.samplers.distill.gaussian import DIM, Gaussian, moment

RF = Gaussian(path=Path(kind="rf"))
SHIFTED = Space(path=RF.path, shifts={"x": 3.0})
PURE, LEAST = 0.2, 0.6


def levels() -> list[tuple[float, float]]:
    """(t, chance): sigmoid(N(-0.5, 0.8^2)), shifted by 3, and pure noise in 1 of 5 rows."""
    nodes = np.linspace(-6.0, 6.0, 400)
    density = np.exp(-0.5 * nodes**2)
    density *= (1.0 - PURE) / density.sum()
    out = [(1.0, PURE)]
    for node, chance in zip(nodes.tolist(), density.tolist(), strict=True):
        u = sigmoid(-0.5 + 0.8 * node)
        out.append((3.0 * u / (1.0 + 2.0 * u), chance))
    return out


def flow(least: float = LEAST) -> FlowMatching:
    return FlowMatching(space=SHIFTED, mean=-0.5, std=0.8, pure=PURE, least=least)


def check_flow_matching() -> None:
    """E (D - x0 + 0.2 t)^2 / max(t, 0.6)^2; the posterior's own error is d^2 t^2 / g^2."""
    want = 0.0
    for t, chance in levels():
        error = RF.std**2 * t**2 / RF.spread(t) ** 2 + (0.2 * t) ** 2
        want += chance * error / max(t, LEAST) ** 2
    models = Models(student=posterior(RF, 0.2))
    got = [float(flow()(models, RF.clean(4000, s), moment(s + 9)).value) for s in range(8)]
    error = float(np.std(got)) / len(got) ** 0.5
    assert error < 0.02 * want and abs(float(np.mean(got)) - want) < 5 * error, (got, want)


def test_flow_matching_is_the_velocity_loss() -> None:
    check_flow_matching()


def test_flow_matching_can_say_what_it_asks() -> None:
    seen: list[Query] = []

    def student(query: Query) -> Latents:
        seen.append(query)
        return query.x

    told = FlowMatching(space=SHIFTED, told=True)
    told(Models(student=student), RF.clean(4, 0), moment(0))
    flow()(Models(student=student), RF.clean(4, 0), moment(0))
    assert seen[0].toward is seen[0].t and seen[1].toward is None


def constant(value: float, name: str) -> "object":
    def rule(models: Models, batch: Batch, at: Moment) -> Loss:
        return Loss(value=torch.tensor(value), metrics={name: torch.tensor(value)})

    return rule


def test_sums_and_choices_agree_on_average() -> None:
    parts = ((0.25, constant(4.0, "a")), (0.75, constant(8.0, "b")))
    models, batch = Models(student=lambda q: q.x), RF.clean(1, 0)
    both = Sum(parts=parts)(models, batch, moment(0))  # type: ignore[arg-type]
    assert float(both.value) == 7.0 and set(both.metrics) == {"a", "b"}
    choice = Choice(parts=parts)  # type: ignore[arg-type]
    values = [float(choice(models, batch, moment(s)).value) for s in range(400)]
    assert set(values) == {4.0, 8.0} and abs(sum(values) / 400 - 7.0) < 0.4
    with pytest.raises(ValueError, match="sum to 0.5"):
        Choice(parts=((0.5, constant(1.0, "a")),))  # type: ignore[arg-type]


BETTER, WORSE = 1.0, 0.1


def pairs(rows: int, seed: int) -> Batch:
    g = torch.Generator().manual_seed(seed)
    both = [m + RF.std * torch.randn(rows, DIM, generator=g) for m in (BETTER, WORSE)]
    return Batch(clean={"x": both[0]}, worse={"x": both[1]})


def check_preference() -> None:
    """ln 2 at the reference, where the slope by a bias that enters as b(t) = t is
    beta / 2 E[ -2 t (gap of the two residuals) / max(t, 0.6)^2 ]: a residual x0 - D(x_t) is
    (1 - k a)(x0's mean - m) on average. In the loss the better one counts with +, the worse with -.
    """
    beta, want = 2.0, 0.0
    for t, chance in levels():
        k, a = RF.posterior(t).k, 1.0 - t
        gap = (1.0 - k * a) * (BETTER - WORSE)
        want += chance * beta / 2.0 * -2.0 * t * gap / max(t, LEAST) ** 2
    rule, slopes = Preference(times=flow(), beta=beta), []
    for seed in range(8):
        bias = torch.zeros((), requires_grad=True)
        models = Models(student=posterior(RF, bias), teacher=posterior(RF))
        value = rule(models, pairs(4000, seed), moment(seed + 5)).value
        assert abs(float(value.detach()) - math.log(2.0)) < 1e-6
        slopes.append(float(torch.autograd.grad(value, bias)[0]))
    error = float(np.std(slopes)) / len(slopes) ** 0.5
    assert error < 0.03 * abs(want) and abs(float(np.mean(slopes)) - want) < 5 * error, slopes


def test_preferences_start_at_the_reference_with_the_known_slope() -> None:
    check_preference()


def check_preference_learning() -> None:
    bias = torch.zeros((), requires_grad=True)
    rule = Preference(times=flow(), beta=2.0)
    optimizer = torch.optim.SGD([bias], lr=0.1)
    preferred = 0.0
    for step in range(20):
        models = Models(student=posterior(RF, bias), teacher=posterior(RF))
        loss = rule(models, pairs(500, step), moment(step))
        optimizer.zero_grad()
        loss.value.backward()
        optimizer.step()
        preferred = float(loss.metrics["preferred"])
    assert float(bias.detach()) > 0.1 and preferred > 0.7, (bias, preferred)


def test_the_student_moves_to_the_better_ones() -> None:
    check_preference_learning()


def test_what_is_missing_is_named() -> None:
    rule = Preference(times=flow(), beta=1.0)
    with pytest.raises(ValueError, match="worse is None"):
        rule(Models(student=posterior(RF)), RF.clean(2, 0), moment(0))
    with pytest.raises(ValueError, match="teacher is None"):
        rule(Models(student=posterior(RF)), pairs(2, 0), moment(0))
