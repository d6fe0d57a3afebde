"""Causal rules on an autoregression, where what each history teaches is known.

x_n = rho x_(n-1) + d e. Given its history h the chunk is N(rho h, d^2), so the consistency function
is rho h + d / g (x - (1 - t) rho h). If instead the history is h = f(x_(n-1) noised to a level), a
regression on it finds rho cov(x, h) / var(h).
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from onbeat.samplers.distill.rules import recipes
from onbeat.samplers.distill.rules.anchor import FlowMatching
from onbeat.samplers.distill.rules.consistency import Consistency
from onbeat.samplers.distill.rules.flow import Space
from onbeat.samplers.distill.rules.history import OwnHistory, Resampled, Sampled
from onbeat.samplers.distill.rules.rule import Batch, Function, Latents, Models, Query
from onbeat.samplers.paths import Path
from tests.samplers.distill.gaussian import moment

RHO, D, CHUNKS = 0.8, 0.5, 6
SPACE = Space(path=Path(kind="rf"), row_axes=2)


def clips(count: int, seed: int) -> Batch:
    """[b, chunks, 1], from the stationary distribution."""
    g = torch.Generator().manual_seed(seed)
    x = D / (1 - RHO**2) ** 0.5 * torch.randn(count, generator=g)
    rows = []
    for _ in range(CHUNKS):
        rows.append(x)
        x = RHO * x + D * torch.randn(count, generator=g)
    return Batch(clean={"x": torch.stack(rows, 1)[..., None]})


def shown(batch: Batch, query: Query) -> Tensor:
    """The chunk before each chunk, as the network is to see it; nothing before the first."""
    past = (query.history or batch.clean)["x"]
    return torch.cat([torch.zeros_like(past[:, :1]), past[:, :-1]], dim=1)


def spread(t: Tensor) -> Tensor:
    return ((1 - t).square() * D**2 + t.square()).sqrt()


def student(batch: Batch, rho: Tensor, width: Tensor) -> Function:
    def run(query: Query) -> Latents:
        t = query.t["x"][..., None].float()
        mean = rho * shown(batch, query)
        return {"x": mean + width / spread(t) * (query.x["x"] - (1 - t) * mean)}

    return run


def teacher(batch: Batch) -> Function:
    def run(query: Query) -> Latents:
        t = query.t["x"][..., None].float()
        mean = RHO * shown(batch, query)
        k = (1 - t) * D**2 / spread(t).square()
        return {"x": mean + k * (query.x["x"] - (1 - t) * mean)}

    return run


def clips_after_first(batch: Batch) -> Batch:
    """The first chunk has no history here and is left out of the loss."""
    weights = torch.ones(CHUNKS)
    weights[0] = 0.0
    return replace(batch, weights={"x": weights[None, :, None]})


def learn(steps: int, change: Callable[[Consistency], object]) -> tuple[float, float]:
    rho, width = (torch.tensor(v, requires_grad=True) for v in (0.0, 1.0))
    rule = change(recipes.causal_cd({"x": 2.0}, levels=64, guidance=1.0))
    optimizer = torch.optim.Adam([rho, width], lr=0.03)
    for step in range(steps):
        batch = clips_after_first(clips(200, step))
        learner = student(batch, rho, width)
        models = Models(student=learner, average=learner, teacher=teacher(batch))
        optimizer.zero_grad()
        rule(models, batch, moment(step)).value.backward()  # type: ignore[operator]
        optimizer.step()
    return float(rho.detach()), float(width.detach())


def check_causal_distillation() -> None:
    rho, width = learn(130, lambda rule: rule)
    assert abs(rho - RHO) < 0.06 and abs(width - D) < 0.04, (rho, width)


def test_a_causal_student_learns_the_rule_of_its_world() -> None:
    check_causal_distillation()


LEVEL = 0.5
"""Of resampled histories: sigmoid(0)."""


def regression(resampled: bool) -> tuple[float, float]:
    """(rho that flow matching at t = 1 finds by least squares, rho that it should find)."""
    made = Resampled(mean=0.0, std=0.0) if resampled else Sampled(times=(1.0, 0.5))
    rule = OwnHistory(
        rule=FlowMatching(space=SPACE, pure=1.0, weight="one"), space=SPACE, made=made
    )
    batch, seen = clips_after_first(clips(20_000, 1)), []

    def constant_student(query: Query) -> Latents:
        """f with the true width and rho = 0.3, so that the history is far from the truth."""
        if query.history is not None:
            seen.append(query.history["x"])
        return student(batch, torch.tensor(0.3), torch.tensor(D))(query)

    rule(Models(student=constant_student), batch, moment(2))
    assert seen, "the student was not shown its own history"
    past, now = seen[-1][:, 1:-1].flatten(), batch.clean["x"][:, 2:].flatten()
    found = float((past * now).mean() / past.square().mean())
    var = D**2 / (1 - RHO**2)
    if not resampled:  # made from noise: tells of x_(n-1) only through the chunk before it
        own, with_x = 0.3**2 * var + D**2, 0.3 * RHO * var
        return found, RHO * with_x / own
    # h = 0.3 p + D / g (x_t - 0.5 0.3 p), p the chunk before, x_t = 0.5 x + 0.5 z
    g = (0.25 * D**2 + 0.25) ** 0.5
    on_p, on_x, on_z = 0.3 * (1 - 0.5 * D / g), 0.5 * D / g, 0.5 * D / g
    own = (on_p**2 + on_x**2 + 2 * on_p * on_x * RHO) * var + on_z**2
    return found, RHO * (on_p * RHO + on_x) * var / own


def check_own_history(resampled: bool) -> None:
    found, want = regression(resampled)
    assert abs(found - want) < 0.01, (found, want)


def test_resampled_histories_have_the_students_errors() -> None:
    check_own_history(True)


def test_sampled_histories_are_the_students_own() -> None:
    check_own_history(False)


def test_only_the_student_sees_its_own_history() -> None:
    asked: dict[str, list[bool]] = {"student": [], "average": [], "teacher": []}
    batch = clips(4, 0)

    def spy(name: str) -> Function:
        def run(query: Query) -> Latents:
            asked[name].append(query.history is not None)
            return {"x": query.x["x"] * 0.5}

        return run

    rule = OwnHistory(
        rule=recipes.causal_cd({}, guidance=1.0),
        space=SPACE,
        made=Sampled(times=(1.0, 0.5), rounds=2),
    )
    rule(
        Models(student=spy("student"), average=spy("average"), teacher=spy("teacher")),
        batch,
        moment(0),
    )
    assert asked["student"] == [False, False, True, True, True]
    assert not any(asked["average"]) and not any(asked["teacher"])


def test_a_share_of_batches_keeps_the_true_history() -> None:
    rule = OwnHistory(
        rule=FlowMatching(space=SPACE), space=SPACE, made=Sampled(times=(1.0,)), share=0.5
    )
    batch, own = clips(2, 0), 0
    for seed in range(200):
        asked: list[Query] = []

        def spy(query: Query, kept: list[Query] = asked) -> Latents:
            kept.append(query)
            return query.x

        rule(Models(student=spy), batch, moment(seed))
        own += asked[-1].history is not None
    assert 70 < own < 130
