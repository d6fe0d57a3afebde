"""Wrong versions of the rules, each with the check that has to notice it.

A mutant is one function with a piece of its text replaced: a sign, a weight, a level. While it is
in place every caller runs it. Those that change nothing one could observe are not listed.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

from onbeat.samplers.distill.rules import continuous, curricula, flow, policy
from onbeat.samplers.distill.rules.anchor import FlowMatching
from onbeat.samplers.distill.rules.consistency import Consistency, TeacherGuidance, at_clean
from onbeat.samplers.distill.rules.continuous import Continuous
from onbeat.samplers.distill.rules.distances import Distance
from onbeat.samplers.distill.rules.history import OwnHistory, Resampled, Sampled
from onbeat.samplers.distill.rules.meanflow import MeanFlow
from onbeat.samplers.distill.rules.pairs import EctPairs, GridPairs, KarrasPairs, SkipPairs
from onbeat.samplers.distill.rules.preference import Preference
from onbeat.samplers.distill.training import average
from tests.samplers.distill import (
    test_anchor,
    test_average,
    test_continuous,
    test_expected_loss,
    test_history,
    test_meanflow,
    test_policy,
    test_rule_parts,
)


class Mutant(NamedTuple):
    of: Callable[..., Any]
    text: str
    instead: str
    check: Callable[[], None]


@contextmanager
def in_place(mutant: Mutant) -> Iterator[None]:
    """Runs the mutant instead of the function, for everybody."""
    function = inspect.unwrap(mutant.of)
    assert isinstance(function, FunctionType), mutant.of
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(mutant.text) == 1, (function.__name__, mutant.text, source)
    scope = dict(function.__globals__)
    exec(source.replace(mutant.text, mutant.instead), scope)
    original = function.__code__
    function.__code__ = inspect.unwrap(scope[function.__name__]).__code__
    try:
        yield
    finally:
        function.__code__ = original


def loss(name: str) -> Callable[[], None]:
    return partial(test_expected_loss.check, name)


def fixed(path: int) -> Callable[[], None]:
    return partial(test_continuous.check_fixed_point, test_continuous.PATHS[path], "difference")


SCM = partial(test_continuous.check_gradient, "difference")
MEAN = partial(test_meanflow.check_value, 0.0)
NORMED = partial(test_meanflow.check_value, 1.0)
MEAN_FIXED = partial(test_meanflow.check_fixed_point, "difference")
OWN = partial(test_history.check_own_history, True)
SAMPLED = partial(test_history.check_own_history, False)
GRPO = test_policy.check_gradient
DPO = test_anchor.check_preference
ANCHOR = test_anchor.check_flow_matching
POSTHOC = test_average.test_an_average_that_was_not_kept_is_made_afterwards
PARTS = test_rule_parts
WHO_SEES = test_history.test_only_the_student_sees_its_own_history

MUTANTS = [
    Mutant(flow.mix, "x0 + spread(b", "x0 - spread(b", loss("cd euler")),
    Mutant(flow.noise_of, "x - spread(a", "x + spread(a", loss("cd euler")),
    Mutant(flow.euler, "t), r)", "t), t)", loss("cd euler")),
    Mutant(flow.euler, "x0, t)", "x0, r)", loss("causal cd")),
    Mutant(flow._heun, "0.5 * ", "", loss("cd heun")),
    Mutant(flow._heun, "r - t", "t - r", loss("cd heun")),
    Mutant(flow._heun, "x[1], x0[1], r", "x[0], x0[0], t", loss("cd heun")),
    Mutant(flow.velocity, "* x0 +", "* x0 -", fixed(0)),
    Mutant(flow.slopes, "-t.sin()", "t.sin()", fixed(0)),
    Mutant(flow.shifted, "shift - 1.0", "shift", loss("causal cd")),
    Mutant(flow.shifted, "shift * t /", "t /", loss("causal cd")),
    Mutant(KarrasPairs.chances, "- self.mean", "+ self.mean", loss("ict")),
    Mutant(KarrasPairs.chances, "math.sqrt(2.0) * self.std", "self.std", loss("ict")),
    Mutant(KarrasPairs.chances, '== "uniform"', '!= "none"', loss("ict")),
    Mutant(KarrasPairs.__call__, "grid[at + 1], grid[at]", "grid[at + 1], grid[0]", loss("ct")),
    Mutant(KarrasPairs.count, '== "ict"', '== "none"', PARTS.check_curricula),
    Mutant(EctPairs.earlier, "-self.b", "self.b", loss("ect")),
    Mutant(EctPairs.earlier, "1.0 + self.k", "1.0 - self.k", loss("ect")),
    Mutant(EctPairs.earlier, "stage + 1", "stage", loss("ect")),
    Mutant(EctPairs.earlier, "* sigma", "* t", loss("ect rf")),
    Mutant(EctPairs.__call__, "< self.pure", "< 0.0", loss("ect rf")),
    Mutant(EctPairs.__call__, "self.mean + self", "self", loss("ect")),
    Mutant(GridPairs.__call__, "at - 1.0", "at * 0.5", loss("causal cd")),
    Mutant(SkipPairs.__call__, "grid[at + 1]", "grid[(at + 2).clamp(max=50)]", loss("lcm")),
    Mutant(curricula.ct_levels, "(grown) - 1)", "(grown))", PARTS.check_curricula),
    Mutant(curricula.ict_levels, "// stage", "// stage * 2", PARTS.check_curricula),
    Mutant(curricula.ct_levels, "- first**2)", ")", PARTS.check_curricula),
    Mutant(curricula.ct_decay, "math.log(start) /", "math.log(start) *", PARTS.check_curricula),
    Mutant(
        curricula.ict_levels,
        "math.log2(last / first)) + 1",
        "math.log2(last / first)) + 2",
        PARTS.check_curricula,
    ),
    Mutant(curricula.ramp, "step / over", "over / (step + 1)", SCM),
    Mutant(Distance.__call__, "length = flat.sum(-1)", "length = flat.mean(-1)", loss("ict")),
    Mutant(Distance.__call__, "return flat.mean(-1)", "return flat.sum(-1)", loss("ct")),
    Mutant(Distance.__call__, ".sqrt() - c", ".sqrt()", loss("ect")),
    Mutant(Distance.__call__, "c * c).sqrt", "c).sqrt", loss("ect")),
    Mutant(Distance.__call__, "math.sqrt(size)", "size", PARTS.check_distances),
    Mutant(Distance.__call__, "2.0 * c", "c", PARTS.check_distances),
    Mutant(Consistency._loss, "1.0 / gap", "gap", loss("ict")),
    Mutant(Consistency._loss, "else 1.0 / gap", "else 1.0 / gap**2", loss("ect rf")),
    Mutant(Consistency._loss, "weight * apart", "apart", loss("ect")),
    Mutant(Consistency._loss, "- want", "+ want", loss("ct")),
    Mutant(Consistency._loss, "self.shares", "{}", PARTS.check_shares),
    Mutant(Consistency.__call__, "Query(x=x_r, t=r", "Query(x=x_r, t=t", loss("ct")),
    Mutant(Consistency.__call__, "Query(x=x_t, t=t", "Query(x=x_t, t=r", loss("ct")),
    Mutant(Consistency.__call__, "noise[name], r[name]", "-noise[name], r[name]", loss("ict")),
    Mutant(Consistency.__call__, "self.guidance.told else", "False else", loss("lcm")),
    Mutant(Consistency.__call__, "x=x_t, t=t, scale=told", "x=x_t, t=t", loss("lcm")),
    Mutant(Consistency.__call__, '"student" else', '"never" else', PARTS.check_targets),
    Mutant(Consistency._guided, "plain[n] + spread", "p + spread", loss("causal cd")),
    Mutant(Consistency._guided, "p - plain[n])", "plain[n] - p)", loss("lcm")),
    Mutant(Consistency._guided, "if n in chosen", "if n not in chosen", loss("causal cd")),
    Mutant(TeacherGuidance.draw, "self.high - self.low", "self.high", loss("lcm")),
    Mutant(at_clean, "> 0.0, x, answer", "> 2.0, x, answer", PARTS.check_clean_targets),
    Mutant(Continuous._goal, "-cos2", "cos2", SCM),
    Mutant(Continuous._goal, "- r * (", "+ r * (", fixed(0)),
    Mutant(Continuous._goal, "sd * slope", "slope", SCM),
    Mutant(Continuous._goal, "both * x +", "both * x -", SCM),
    Mutant(Continuous._goal, "old - speed", "old + speed", SCM),
    Mutant(Continuous._goal, "cos().square()", "cos()", SCM),
    Mutant(Continuous._goal, "old + g", "old - g", SCM),
    Mutant(Continuous._goal, "size + self.c", "size + 1.0", SCM),
    Mutant(Continuous._speed, "* c + spread", "* c - spread", SCM),
    Mutant(Continuous._tangent, "v.cos() * v.sin()", "v.sin()", SCM),
    Mutant(
        Continuous._part, "squares - weight", "squares + weight", test_continuous.check_weighting
    ),
    Mutant(continuous.trig_clean, "sigma_data * t.sin() if", "t.sin() if", fixed(1)),
    Mutant(continuous.trig_clean, '["x"][name] / spread', '["x"][name] * spread', fixed(2)),
    Mutant(continuous.trig_function, "* x - x0", "* x + x0", fixed(0)),
    Mutant(MeanFlow.__call__, "v[name] - spread", "v[name] + spread", MEAN),
    Mutant(MeanFlow.__call__, "noise[n] - c", "c - noise[n]", MEAN),
    Mutant(MeanFlow.__call__, "t[name] - r[name]", "t[name]", MEAN),
    Mutant(MeanFlow.__call__, ".sum(-1)", ".mean(-1)", MEAN),
    Mutant(MeanFlow.__call__, "** self.power", "** (2 * self.power)", NORMED),
    Mutant(MeanFlow.__call__, "+ self.c)", "+ 1.0)", NORMED),
    Mutant(MeanFlow.__call__, "(x[n] - x0[n])", "(x0[n] - x[n])", MEAN_FIXED),
    Mutant(MeanFlow._slope, '"x": dict(v)', '"x": {n: -s for n, s in v.items()}', MEAN),
    Mutant(MeanFlow.draw, "< self.same", "> self.same", MEAN),
    Mutant(FlowMatching.__call__, "square().reciprocal()", "reciprocal()", ANCHOR),
    Mutant(FlowMatching.__call__, "min=self.least", "min=0.01", ANCHOR),
    Mutant(FlowMatching.__call__, '== "velocity"', '!= "velocity"', ANCHOR),
    Mutant(FlowMatching.draw, "< self.pure, 1.0", "< self.pure, 0.5", ANCHOR),
    Mutant(FlowMatching.draw, "self.mean +", "-self.mean +", ANCHOR),
    Mutant(Preference.__call__, "-self.beta", "self.beta", DPO),
    Mutant(Preference.__call__, "better - worse", "better + worse", DPO),
    Mutant(Preference.__call__, "batch.worse, noise", "batch.clean, noise", DPO),
    Mutant(Preference._gain, "- (before", "+ (before", DPO),
    Mutant(Preference._gain, "square().reciprocal()", "reciprocal()", DPO),
    Mutant(
        policy.advantages,
        "centred / std",
        "centred * std",
        test_policy.test_advantages_are_standardised_in_their_group_and_clipped,
    ),
    Mutant(
        policy.joint_advantages,
        "* advantages(value, clip)",
        "* value",
        test_policy.test_rewards_are_made_alike_before_they_are_summed,
    ),
    Mutant(policy.policy_loss, "-torch.minimum", "torch.minimum", GRPO),
    Mutant(policy.policy_loss, "torch.minimum", "torch.maximum", test_policy.check_clipping),
    Mutant(policy.log_ratio, "value - old[name]", "value + old[name]", GRPO),
    Mutant(policy.log_ratio, " / sizes[name]", "", GRPO),
    Mutant(policy.implicit_target_loss, "answer + rate", "answer - rate", GRPO),
    Mutant(policy.implicit_target_loss, "0.5 * advantage", "advantage", GRPO),
    Mutant(policy.implicit_target_loss, "row.next_clean * row", "row", GRPO),
    Mutant(policy.kernel_kl, "/ 2.0", "/ 1.0", test_policy.check_kl),
    Mutant(policy.kernel_kl, "/ safe).square()", "* safe).square()", test_policy.check_kl),
    Mutant(OwnHistory.__call__, "history=history", "history=None", OWN),
    Mutant(
        OwnHistory.__call__,
        "models.student, batch.clean",
        "models.student, batch.clean | {'x': -batch.clean['x']}",
        OWN,
    ),
    Mutant(Resampled.__call__, "noise[n], t[n]", "noise[n], 0.5 * t[n]", OWN),
    Mutant(Sampled.__call__, "history=made", "history=None", WHO_SEES),
    Mutant(average.power, "gamma + 1.0", "gamma", test_average.check_width),
    Mutant(average.gamma_of, "7.0", "6.0", test_average.check_width),
    Mutant(
        average.update,
        "1.0 - decay",
        "decay",
        test_average.test_a_constant_average_is_the_geometric_sum,
    ),
    Mutant(average._products, "p + q + 1.0", "p + q + 2.0", POSTHOC),
    Mutant(average._products, "(early / t) ** p", "(t / early) ** p", POSTHOC),
]
