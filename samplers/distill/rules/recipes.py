"""The rules of the literature, each as the parts of `Consistency` that it is made of.

Any field can be changed afterwards with dataclasses.replace. What a rule does not contain is said
in its docstring: the decay of the average, the rate, and how long to train.
"""

from collections.abc import Mapping
from typing import Literal

from onbeat.samplers.distill.rules.consistency import Consistency, StepKind, TeacherGuidance
from onbeat.samplers.distill.rules.distances import Distance
from onbeat.samplers.distill.rules.flow import Space
from onbeat.samplers.distill.rules.pairs import EctPairs, GridPairs, KarrasPairs, SkipPairs
from onbeat.samplers.paths import Betas, Path

EDM_FROM_MIN = Space(path=Path(kind="edm", sigma_min=0.002))
EDM = Space(path=Path(kind="edm"))


def ct(last_levels: int = 150) -> Consistency:
    """Consistency training (Song et al., 2023): N(k) levels, uniform; the target is the average
    whose decay is mu(k) (`curricula.ct_decay` of `pairs.count`)."""
    pairs = KarrasPairs(levels=last_levels, curriculum="ct")
    return Consistency(space=EDM_FROM_MIN, pairs=pairs, target="average")


def cd(levels: int = 40, step: StepKind = "heun") -> Consistency:
    """Consistency distillation (Song et al., 2023): one step of a teacher between neighbours of 40
    levels; the target is the average with decay 0.95."""
    pairs = KarrasPairs(levels=levels)
    return Consistency(space=EDM_FROM_MIN, pairs=pairs, step=step, target="average")


def ict(last_levels: int = 1280, first_levels: int = 10) -> Consistency:
    """Improved consistency training (Song and Dhariwal, 2023): doubling levels, lognormal over
    sigmas, pseudo-Huber over the whole vector, weight 1 / gap, no average."""
    pairs = KarrasPairs(
        levels=last_levels, curriculum="ict", first_levels=first_levels, chosen="lognormal"
    )
    return Consistency(
        space=EDM_FROM_MIN, pairs=pairs, distance=Distance(kind="huber"), weight="1/gap"
    )


def ect(
    every: int,
    *,
    stages: int = 8,
    q: float = 2.0,
    c: float = 0.0,
    space: Space = EDM,
    pure: float = 0.0,
    shares: Mapping[str, float] | None = None,
) -> Consistency:
    """Easy consistency tuning (Geng et al., 2024) of a trained diffusion model: r moves from clean
    towards t stage by stage; sqrt(|d|^2 + c^2) / (t - r). Also on rectified flow, by `space`; there
    `pure` of the rows start at pure noise."""
    kind: Literal["rf", "edm"] = "rf" if space.path.kind == "rf" else "edm"
    return Consistency(
        space=space,
        pairs=EctPairs(every=every, stages=stages, q=q, path=kind, pure=pure),
        distance=Distance(kind="huber", c=c),
        weight="1/gap",
        shares=dict(shares or {}),
    )


def lcm(
    low: float = 3.0, high: float = 15.0, *, points: int = 50, betas: Betas | None = None
) -> Consistency:
    """Latent consistency distillation (Luo et al., 2023): a guided DDIM step over 20 of 1,000
    training steps; the student is told the scale s = w + 1; the target is the average."""
    used = Betas() if betas is None else betas
    return Consistency(
        space=Space(path=Path(kind="vp", betas=used)),
        pairs=SkipPairs(points=points, training=used.steps),
        distance=Distance(kind="huber", c=0.001),
        step="euler",
        target="average",
        guidance=TeacherGuidance(low=low, high=high, told=True),
    )


def causal_cd(
    shifts: Mapping[str, float],
    *,
    levels: int = 48,
    guidance: float = 3.0,
    guided: tuple[str, ...] = (),
    row_axes: int = 2,
    shares: Mapping[str, float] | None = None,
) -> Consistency:
    """Causal consistency distillation (Causal Forcing, 2026) on rectified flow: one guided Euler
    step of a causal teacher, squares on x0, the target is the average with decay 0.99. Rows are
    (clip, chunk); the functions show every chunk its clean history (teacher forcing). Paper: shift
    5, 48 levels, scale 3."""
    return Consistency(
        space=Space(path=Path(kind="rf"), shifts=dict(shifts), row_axes=row_axes),
        pairs=GridPairs(levels=levels),
        step="euler",
        target="average",
        guidance=TeacherGuidance(low=guidance, high=guidance, told=False, modalities=guided),
        shares=dict(shares or {}),
    )
