"""Each discrete rule beside its expected loss on Gaussian data, written out from the papers.

The student is a diffusion model that has not been tuned (it predicts posterior means), which no
rule is content with; its loss depends on every sign, level, chance and weight of the rule.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onbeat.samplers.distill.rules import recipes
from onbeat.samplers.distill.rules.flow import Space
from onbeat.samplers.distill.rules.rule import Models, Rule
from onbeat.samplers.paths import Betas, Path
from tests.samplers.distill.gaussian import (
    Affine,
    AffineOf,
    Gaussian,
    Pair,
    euler_map,
    expected_loss,
    function,
    heun_map,
)

STEP, STEPS = 37, 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A rule, what it is run on, and what its loss should be on average."""

    rule: Callable[[], Rule]
    data: Gaussian
    models: Callable[[], Models]
    expected: Callable[[], float]
    row_axes: int = 1


def untuned(data: Gaussian) -> AffineOf:
    return lambda t, s: data.posterior(t)


def karras_grid(n: int) -> list[float]:
    """N sigmas, rising: even in sigma^(1/7)."""
    low, high = 0.002 ** (1 / 7), 80.0 ** (1 / 7)
    return [(low + i / (n - 1) * (high - low)) ** 7 for i in range(n)]


def uniform(grid: list[float]) -> list[Pair]:
    return [Pair(t, r, 1.0 / (len(grid) - 1)) for r, t in zip(grid[:-1], grid[1:], strict=True)]


def ct_grid() -> list[float]:
    """N(37 of 100) with s0 = 2 and s1 = 20."""
    return karras_grid(math.ceil(math.sqrt(0.37 * (21**2 - 4) + 4) - 1) + 1)


def ict_pairs() -> list[Pair]:
    """s0 = 10, s1 = 40: K' = floor(100 / 3) = 33, so N(37) = 21; p by the error function."""
    grid = karras_grid(21)
    edges = [math.erf((math.log(s) + 1.1) / (2.0 * math.sqrt(2.0))) for s in grid]
    whole = edges[-1] - edges[0]
    steps = zip(grid[:-1], grid[1:], edges[:-1], edges[1:], strict=True)
    return [Pair(t, r, (b - a) / whole) for r, t, a, b in steps]


def ect_pairs(rf: bool, pure: float = 0.0) -> list[Pair]:
    """Stage 1 (step 37, a stage every 20), q = 2: r = t (1 - n / 4); quadrature over ln sigma."""
    nodes = np.linspace(-6.0, 6.0, 600)
    density = np.exp(-0.5 * nodes**2)
    density *= (1.0 - pure) / density.sum()
    pairs = [Pair(1.0, 0.75, pure)] if pure else []
    for node, chance in zip(nodes.tolist(), density.tolist(), strict=True):
        sigma = math.exp(-1.1 + 2.0 * node)
        n = 1.0 + 8.0 / (1.0 + math.exp(min(sigma, 700.0)))
        t = sigma / (1.0 + sigma) if rf else sigma
        pairs.append(Pair(t, max(t * (1.0 - n / 4.0), 0.0), chance))
    return pairs


def one_over_gap(t: float, r: float) -> float:
    return 1.0 / (t - r)


EDM = Gaussian(path=Path(kind="edm", sigma_min=0.002))
EDM_ZERO = Gaussian(path=Path(kind="edm"))
RF = Gaussian(path=Path(kind="rf"))
VP = Gaussian(path=Path(kind="vp", betas=Betas()))


def _alone(data: Gaussian) -> Callable[[], Models]:
    f = function(untuned(data))
    return lambda: Models(student=f, average=f)


def _with_teacher(data: Gaussian) -> Callable[[], Models]:
    f = function(untuned(data))
    return lambda: Models(student=f, average=f, teacher=f)


def _euler(data: Gaussian, t: float, r: float) -> Affine:
    return euler_map(data.path, t, r, data.posterior(t))


def _ict() -> float:
    c = 0.00054 * math.sqrt(2)
    return expected_loss(EDM, ict_pairs(), untuned(EDM), kind="huber", c=c, weight=one_over_gap)


def _ect(data: Gaussian, rf: bool, pure: float, c: float) -> float:
    pairs = ect_pairs(rf, pure)
    return expected_loss(data, pairs, untuned(data), kind="huber", c=c, weight=one_over_gap)


OTHER = -0.4
"""Mean of the data without the prompt."""


def guided(data: Gaussian, s: float) -> Callable[[float], Affine]:
    """x0 = u + s (p - u)."""
    plain = Gaussian(path=data.path, mean=OTHER, std=data.std)
    return lambda t: plain.posterior(t).scaled(1.0 - s).plus(data.posterior(t), s)


def told(data: Gaussian) -> AffineOf:
    """A student that depends on its scale, more so at high noise."""

    def of(t: float, s: float) -> Affine:
        return data.posterior(t).plus(Affine(0.0, 0.1 * s * data.path.scales(t)[1]))

    return of


def _prompted_teacher(data: Gaussian) -> AffineOf:
    return lambda t, s: data.posterior(t)


def _unprompted_teacher(data: Gaussian) -> AffineOf:
    plain = Gaussian(path=data.path, mean=OTHER, std=data.std)
    return lambda t, s: plain.posterior(t)


def _lcm_models() -> Models:
    f, teach = told(VP), function(_prompted_teacher(VP), _unprompted_teacher(VP))
    return Models(student=function(f), average=function(f), teacher=teach)


def _lcm() -> float:
    """50 steps 19, 39 .. 999, each to the one 20 below, the first to clean; s uniform in 3..15."""
    grid = [-1.0, *(20.0 * i + 19.0 for i in range(50))]
    nodes, weights = np.polynomial.legendre.leggauss(6)
    scales = [(9.0 + 6.0 * float(n), float(w) / 2.0) for n, w in zip(nodes, weights, strict=True)]
    step = lambda t, r, s: euler_map(VP.path, t, r, guided(VP, s)(t))  # noqa: E731
    return expected_loss(
        VP, uniform(grid), told(VP), step=step, kind="huber", c=0.001, scales=scales
    )


def _shift(u: float) -> float:
    return 5.0 * u / (1.0 + 4.0 * u)


def _causal() -> float:
    grid = [_shift(i / 48) for i in range(49)]
    step = lambda t, r, s: euler_map(RF.path, t, r, guided(RF, 3.0)(t))  # noqa: E731
    return expected_loss(RF, uniform(grid), untuned(RF), step=step)


def _causal_models() -> Models:
    f, teach = function(untuned(RF)), function(_prompted_teacher(RF), _unprompted_teacher(RF))
    return Models(student=f, average=f, teacher=teach)


ECT_RF = Space(path=RF.path)
CASES: dict[str, Case] = {
    "ct": Case(
        rule=lambda: recipes.ct(last_levels=20),
        data=EDM,
        models=_alone(EDM),
        expected=lambda: expected_loss(EDM, uniform(ct_grid()), untuned(EDM)),
    ),
    "cd heun": Case(
        rule=lambda: recipes.cd(18),
        data=EDM,
        models=_with_teacher(EDM),
        expected=lambda: expected_loss(
            EDM,
            uniform(karras_grid(18)),
            untuned(EDM),
            step=lambda t, r, s: heun_map(t, r, EDM.posterior),
        ),
    ),
    "cd euler": Case(
        rule=lambda: recipes.cd(18, "euler"),
        data=EDM,
        models=_with_teacher(EDM),
        expected=lambda: expected_loss(
            EDM, uniform(karras_grid(18)), untuned(EDM), step=lambda t, r, s: _euler(EDM, t, r)
        ),
    ),
    "ict": Case(rule=lambda: recipes.ict(40), data=EDM, models=_alone(EDM), expected=_ict),
    "ect": Case(
        rule=lambda: recipes.ect(20, c=0.06),
        data=EDM_ZERO,
        models=_alone(EDM_ZERO),
        expected=lambda: _ect(EDM_ZERO, False, 0.0, 0.06),
    ),
    "ect rf": Case(
        rule=lambda: recipes.ect(20, c=0.06, space=ECT_RF, pure=0.25),
        data=RF,
        models=_alone(RF),
        expected=lambda: _ect(RF, True, 0.25, 0.06),
    ),
    "lcm": Case(rule=recipes.lcm, data=VP, models=_lcm_models, expected=_lcm),
    "causal cd": Case(
        rule=lambda: recipes.causal_cd({"x": 5.0}, row_axes=1),
        data=RF,
        models=_causal_models,
        expected=_causal,
    ),
}


@lru_cache(maxsize=32)
def expected(name: str) -> float:
    return CASES[name].expected()
