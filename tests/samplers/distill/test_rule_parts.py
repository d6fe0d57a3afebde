"""Parts of rules by themselves: curricula, distances, targets, shares, and what is refused."""

import math

import pytest
import torch
from torch import Tensor

from onbeat.samplers.distill.rules import recipes
from onbeat.samplers.distill.rules.consistency import Consistency, TeacherGuidance, same_dropout
from onbeat.samplers.distill.rules.curricula import (
    ct_decay,
    ct_levels,
    ect_stage,
    ict_levels,
    ramp,
)
from onbeat.samplers.distill.rules.distances import Distance
from onbeat.samplers.distill.rules.flow import Space
from onbeat.samplers.distill.rules.pairs import EctPairs, GridPairs
from onbeat.samplers.distill.rules.rule import Batch, Function, Latents, Models, Moment, Query
from onbeat.samplers.paths import Path
from tests.samplers.distill.gaussian import moment

RF = Space(path=Path(kind="rf"))


def check_curricula() -> None:
    """By hand: N(0) = s0 + ... of the paper's formula, and its end; K' = floor(K / 8) for iCT."""
    assert [ct_levels(k, 100, 2, 150) for k in (0, 1, 25, 100)] == [2, 16, 76, 151]
    assert abs(ct_decay(2) - 0.95) < 1e-12 and abs(ct_decay(151) - 0.95 ** (2 / 151)) < 1e-12
    assert [ict_levels(k, 800) for k in (0, 99, 100, 350, 700, 799)] == [11, 11, 21, 81, 1281, 1281]
    both = (recipes.ct(20), recipes.ict(40))
    counts = [rule.pairs.count(moment(0, 37)) for rule in both]  # type: ignore[attr-defined]
    assert counts == [13, 21]
    assert [ect_stage(k, 10, 2) for k in (0, 9, 10, 25, 90)] == [0, 0, 1, 2, 2]
    assert (ramp(0, 10), ramp(5, 10), ramp(20, 10), ramp(0, 0)) == (0.0, 0.5, 1.0, 1.0)


def test_curricula() -> None:
    check_curricula()


def check_distances() -> None:
    """|d|^2 = 25 over four numbers: 3, 4, 0, 0."""
    squares = torch.tensor([[[9.0, 16.0], [0.0, 0.0]]])
    c = 0.00054 * 2.0
    want = {
        Distance(): 6.25,
        Distance(kind="huber", c=0.0): 5.0,
        Distance(kind="huber", c=12.0): 1.0,
        Distance(kind="cauchy", c=5.0): math.log(1.5),
        Distance(kind="huber"): math.hypot(5.0, c) - c,
    }
    for distance, value in want.items():
        got = distance(squares.double(), 1)
        assert got.shape == (1,) and abs(float(got) - value) < 1e-9, (distance, got)


def test_distances_are_of_the_whole_vector() -> None:
    check_distances()
    with pytest.raises(ValueError, match="c is 0.0; allowed: above 0"):
        Distance(kind="cauchy", c=0.0)


def test_a_row_without_error_has_no_gradient() -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    loss = Distance(kind="huber", c=0.0)((x - torch.tensor([0.0, 0.0, 0.0])).square(), 1).sum()
    (slope,) = torch.autograd.grad(loss, x)
    assert torch.equal(slope, torch.zeros(2, 3))


class Pinned:
    """Pairs at fixed times."""

    def __init__(self, t: float, r: float) -> None:
        self.t, self.r = t, r

    def __call__(self, rows: tuple[int, ...], at: Moment) -> tuple[Tensor, Tensor]:
        return tuple(torch.full(rows, v, dtype=torch.float64) for v in (self.t, self.r))  # type: ignore[return-value]


def answers(value: float) -> Function:
    return lambda query: {n: torch.full_like(x, value) for n, x in query.x.items()}


def check_clean_targets() -> None:
    """At r = 0 the target is x_r, the data, whatever the network says there."""
    rule = Consistency(space=RF, pairs=Pinned(0.5, 0.0))
    clean = {"x": torch.full((3, 2), 5.0)}
    got = float(rule(Models(student=answers(1.0)), Batch(clean=clean), moment(0)).value)
    assert abs(got - 16.0) < 1e-5, got


def test_at_the_clean_time_the_target_is_the_state_itself() -> None:
    check_clean_targets()


def check_targets() -> None:
    models = Models(student=answers(1.0), average=answers(3.0))
    batch = Batch(clean={"x": torch.zeros(3, 2)})
    own = Consistency(space=RF, pairs=Pinned(0.5, 0.25))
    other = Consistency(space=RF, pairs=Pinned(0.5, 0.25), target="average")
    assert float(own(models, batch, moment(0)).value) == 0.0
    assert float(other(models, batch, moment(0)).value) == 4.0
    with pytest.raises(ValueError, match="average is None"):
        other(Models(student=answers(1.0)), batch, moment(0))


def test_the_target_is_who_was_asked() -> None:
    check_targets()


def check_shares() -> None:
    rule = Consistency(
        space=Space(path=RF.path, shifts={"b": 3.0}),
        pairs=Pinned(0.5, 0.0),
        shares={"a": 0.5},
    )
    clean = {"a": torch.full((2, 3), 2.0), "b": torch.full((2, 7), 1.0)}
    weights = {"a": torch.ones(3), "b": torch.full((7,), 3.0)}
    seen: list[Query] = []

    def student(query: Query) -> Latents:
        seen.append(query)
        return answers(0.0)(query)

    got = rule(Models(student=student), Batch(clean=clean, weights=weights), moment(0))
    assert abs(float(got.value) - (0.5 * 4.0 + 3.0 * 1.0)) < 1e-6
    assert [float(t[0]) for t in seen[-1].t.values()] == [0.5, 0.75]


def test_modalities_have_their_own_times_weights_and_shares() -> None:
    check_shares()


def test_only_the_student_at_t_has_gradients_and_both_drop_the_same_units() -> None:
    seen: list[tuple[bool, Tensor]] = []

    def student(query: Query) -> Latents:
        seen.append((torch.is_grad_enabled(), torch.rand(4)))
        return dict(query.x)

    before = torch.get_rng_state()
    recipes.ict(20)(Models(student=student), Batch(clean={"x": torch.zeros(2, 2)}), moment(3))
    assert [grad for grad, _ in seen] == [False, True] and torch.equal(seen[0][1], seen[1][1])
    assert torch.equal(before, torch.get_rng_state())
    with same_dropout(1):
        one = torch.rand(4)
    assert not torch.equal(one, seen[0][1])


def test_guidance_leaves_other_modalities_and_scale_one_alone() -> None:
    asked: list[bool] = []

    def teacher(query: Query) -> Latents:
        asked.append(query.prompted)
        return answers(1.0 if query.prompted else 0.0)(query)

    clean = {"a": torch.zeros(2, 1), "b": torch.zeros(2, 1)}
    times = {n: torch.full((2,), 0.5, dtype=torch.float64) for n in clean}
    rule = recipes.causal_cd({}, guidance=3.0, guided=("b",), row_axes=1)
    got = rule._guided(teacher, clean, times, torch.full((2,), 3.0))
    assert got["a"].unique().tolist() == [1.0] and got["b"].unique().tolist() == [3.0]
    plain = recipes.causal_cd({}, guidance=1.0, row_axes=1)
    plain._guided(teacher, clean, times, torch.ones(2))
    assert asked == [True, False, True]


def test_grids_reach_both_ends_and_gaps_close_with_the_stages() -> None:
    t, r = GridPairs(levels=4)((4000,), moment(0))
    assert t.unique().tolist() == [0.25, 0.5, 0.75, 1.0] and float(r.min()) == 0.0
    pairs = EctPairs(every=10, stages=4, q=4.0, path="rf", pure=0.3)
    gaps = []
    for step in (0, 10, 20, 90):
        t, r = pairs((4000,), moment(1, step))
        assert bool((r < t).all()) and abs(float((t == 1.0).double().mean()) - 0.3) < 0.03
        gaps.append(float((t - r).mean()))
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] < 0.01


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match="shifts is"):
        Space(path=Path(kind="edm"), shifts={"x": 3.0})
    with pytest.raises(ValueError, match="row_axes is 0"):
        Space(path=RF.path, row_axes=0)
    with pytest.raises(ValueError, match="guidance is 3.0 to 2.0"):
        TeacherGuidance(low=3.0, high=2.0, told=False)
    with pytest.raises(ValueError, match="a step of a teacher"):
        Consistency(
            space=RF, pairs=GridPairs(), guidance=TeacherGuidance(low=1.0, high=1.0, told=False)
        )
    with pytest.raises(ValueError, match="q is 1.0"):
        EctPairs(every=1, q=1.0)
    with pytest.raises(ValueError, match="pure is 0.5"):
        EctPairs(every=1, pure=0.5)
