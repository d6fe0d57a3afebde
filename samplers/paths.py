"""Paths: how a clean latent and noise are mixed at a time t, x_t = a(t) x0 + b(t) eps.

Plain frozen data and float64 scalars; no tensors, no schedule and no network. Four kinds:

    rf    a = 1 - t, b = t                        t in [0, 1], 0 is clean
    edm   a = 1, b = t (sigma)                    t from `sigma_min`, which is clean, upwards
    trig  a = cos t, b = sigma_data sin t         t in [0, pi / 2], 0 is clean
    vp    a = sqrt(abar), b = sqrt(1 - abar)      t = 0, 1, .. training steps - 1, and -1 is clean

Sources: Liu et al., Rectified Flow (2022); Karras et al., EDM (2022); Lu and Song, sCM (2024);
Ho et al., DDPM (2020).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

PathKind = Literal["rf", "edm", "trig", "vp"]
BetaKind = Literal["linear", "scaled_linear", "squaredcos_cap_v2"]
_FLOOR = 1e-9
"""Makes (1 - g) s land on the integer that it is mathematically, not one below."""


@dataclass(frozen=True, kw_only=True)
class Betas:
    """The training steps of a variance-preserving path. Defaults are those of Stable Diffusion.

    zero_snr: rescaled so that the last step is pure noise (Lin et al., 2023, algorithm 1).
    """

    kind: BetaKind = "scaled_linear"
    start: float = 0.00085
    end: float = 0.012
    steps: int = 1000
    zero_snr: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.start <= self.end < 1.0:
            raise ValueError(f"betas is {self.start} to {self.end}; allowed: 0 < start <= end < 1")
        if self.steps < 2:
            raise ValueError(f"betas.steps is {self.steps}; allowed: 2 or more")


@dataclass(frozen=True, kw_only=True)
class Path:
    """A path by name, with the numbers that some of them need (see the module).

    sigma_data: scale of the noise on `trig` (1: unit noise). sigma_min: the level of `edm` that
    counts as clean: noise is added from there, with std sqrt(s^2 - sigma_min^2).
    """

    kind: PathKind
    sigma_data: float = 1.0
    sigma_min: float = 0.0
    betas: Betas | None = None

    def __post_init__(self) -> None:
        if (self.betas is not None) != (self.kind == "vp"):
            raise ValueError(f"betas is {self.betas}; allowed: given for the path 'vp' alone")
        if not self.sigma_data > 0.0:
            raise ValueError(f"sigma_data is {self.sigma_data}; allowed: above 0")
        if self.sigma_min < 0.0 or (self.sigma_min > 0.0 and self.kind != "edm"):
            raise ValueError(
                f"sigma_min is {self.sigma_min}; allowed: 0, or above 0 on the path 'edm'"
            )

    @property
    def clean(self) -> float:
        """The time at which x is x0."""
        return {"edm": self.sigma_min, "vp": -1.0}.get(self.kind, 0.0)

    @property
    def last(self) -> float:
        """The largest time that there is."""
        steps = self.betas.steps if self.betas else 0
        return {"rf": 1.0, "edm": math.inf, "trig": math.pi / 2}.get(self.kind, steps - 1.0)

    def check(self, t: float) -> None:
        """Raises ValueError for a time that is not on the path."""
        if not self.clean <= t <= self.last or (self.kind == "vp" and t != int(t)):
            whole = " (a whole number)" if self.kind == "vp" else ""
            raise ValueError(
                f"t is {t}; allowed on the path {self.kind!r}: {self.clean} to {self.last}{whole}"
            )

    def scales(self, t: float) -> tuple[float, float]:
        """(a, b) at t."""
        if self.kind == "rf":
            return 1.0 - t, t
        if self.kind == "edm":
            return 1.0, t
        if self.kind == "trig":
            return math.cos(t), self.sigma_data * math.sin(t)
        assert self.betas is not None
        abar = 1.0 if t < 0 else alphas_bar(self.betas)[int(t)]
        return math.sqrt(abar), math.sqrt(1.0 - abar)

    def start_scale(self, t: float) -> float:
        """Scale of the noise that a chunk starts from at t if there is no picture to start from.

        b(t), except on `vp`, where it is 1: there b stops short of 1 and models expect unit noise.
        """
        return 1.0 if self.kind == "vp" else self.scales(t)[1]

    def between(self, s: float, g: float) -> float:
        """The time e = (1 - g) s that a step with stochasticity g reaches without noise; clean if
        g is 1. Rounded down on `vp` (Zheng et al., TCD, 2024, algorithm 4)."""
        if g >= 1.0:
            return self.clean
        e = (1.0 - g) * s
        return max(float(math.floor(e + _FLOOR)) if self.kind == "vp" else e, self.clean)


@lru_cache(maxsize=16)
def alphas_bar(betas: Betas) -> tuple[float, ...]:
    """Products of (1 - beta) up to every training step, float64."""
    products, total = [], 1.0
    for beta in _betas(betas):
        total *= 1.0 - beta
        products.append(total)
    return _without_signal_at_the_end(products) if betas.zero_snr else tuple(products)


def _betas(betas: Betas) -> list[float]:
    n = betas.steps
    if betas.kind == "linear":
        return [betas.start + (betas.end - betas.start) * i / (n - 1) for i in range(n)]
    if betas.kind == "scaled_linear":
        low, high = math.sqrt(betas.start), math.sqrt(betas.end)
        return [(low + (high - low) * i / (n - 1)) ** 2 for i in range(n)]
    return [min(1.0 - _cosine((i + 1) / n) / _cosine(i / n), 0.999) for i in range(n)]


def _cosine(u: float) -> float:
    return math.cos((u + 0.008) / 1.008 * math.pi / 2) ** 2


def _without_signal_at_the_end(products: list[float]) -> tuple[float, ...]:
    roots = [math.sqrt(p) for p in products]
    first, last = roots[0], roots[-1]
    return tuple(((r - last) * first / (first - last)) ** 2 for r in roots)
