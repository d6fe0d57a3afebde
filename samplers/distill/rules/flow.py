"""Paths for whole tensors of times: mixing, velocities, and steps of the probability flow.

The same mathematics as `onbeat.samplers.paths`, whose scalars are the truth, with times as float64
tensors [*rows]. Differentiable in x and, but on `vp`, in t. No network.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from onbeat.samplers.distill.rules.rule import Latents, Times, spread
from onbeat.samplers.paths import Path, alphas_bar

Clean = Callable[[Latents, Times], Latents]
"""x0 of every row at its time."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """The path of a model, the time shift of each modality (rf alone), and how many leading axes of
    the latents count rows."""

    path: Path
    shifts: Mapping[str, float] = field(default_factory=dict)
    row_axes: int = 1

    def __post_init__(self) -> None:
        if self.shifts and self.path.kind != "rf":
            raise ValueError(f"shifts is {dict(self.shifts)}; allowed: none but on the path 'rf'")
        if self.row_axes < 1:
            raise ValueError(f"row_axes is {self.row_axes}; allowed: 1 or more")

    def times(self, latents: Latents, t: Tensor) -> dict[str, Tensor]:
        """Each modality's own time at `t` [*rows] of the common schedule."""
        return {name: shifted(t, self.shifts.get(name, 1.0)) for name in latents}

    def is_clean(self, t: Tensor) -> Tensor:
        return t <= self.path.clean


def shifted(t: Tensor, shift: float) -> Tensor:
    """`onbeat.samplers.schedule.shifted` of a tensor."""
    return t if shift == 1.0 else shift * t / (1.0 + (shift - 1.0) * t)


def scales(path: Path, t: Tensor) -> tuple[Tensor, Tensor]:
    """(a, b) at times t, float64."""
    t = t.double()
    if path.kind == "rf":
        return 1.0 - t, t
    if path.kind == "edm":
        return torch.ones_like(t), t
    if path.kind == "trig":
        return t.cos(), path.sigma_data * t.sin()
    assert path.betas is not None
    table = torch.tensor((*alphas_bar(path.betas), 1.0), dtype=torch.float64, device=t.device)
    abar = table[t.long()]  # -1, clean, is the last entry
    return abar.sqrt(), (1.0 - abar).sqrt()


def slopes(path: Path, t: Tensor) -> tuple[Tensor, Tensor]:
    """(da/dt, db/dt). Raises ValueError on `vp`, whose times are whole numbers."""
    t = t.double()
    if path.kind == "rf":
        return -torch.ones_like(t), torch.ones_like(t)
    if path.kind == "edm":
        return torch.zeros_like(t), torch.ones_like(t)
    if path.kind == "trig":
        return -t.sin(), path.sigma_data * t.cos()
    raise ValueError("path is 'vp'; allowed here: rf, edm, trig")


def mix(path: Path, x0: Tensor, noise: Tensor, t: Tensor) -> Tensor:
    """a(t) x0 + b(t) noise."""
    a, b = scales(path, t)
    return spread(a, x0) * x0 + spread(b, x0) * noise


def noise_of(path: Path, x: Tensor, x0: Tensor, t: Tensor) -> Tensor:
    """The noise in x if x0 is its clean part; 0 where there is none."""
    a, b = scales(path, t)
    inverse = torch.where(b > 0.0, 1.0 / b.clamp(min=1e-300), torch.zeros_like(b))
    return spread(inverse, x) * (x - spread(a, x) * x0)


def velocity(path: Path, x: Tensor, x0: Tensor, t: Tensor) -> Tensor:
    """dx/dt of the probability flow with posterior mean x0: a' x0 + b' eps."""
    slope_a, slope_b = slopes(path, t)
    return spread(slope_a, x) * x0 + spread(slope_b, x) * noise_of(path, x, x0, t)


def euler(path: Path, x: Tensor, x0: Tensor, t: Tensor, r: Tensor) -> Tensor:
    """From t to r along the line in noise over signal: a(r) x0 + b(r) eps, which is DDIM.

    On rf and edm it is Euler's step in t. Source: Song et al., DDIM (2021), eq. 12 with eta 0.
    """
    return mix(path, x0, noise_of(path, x, x0, t), r)


def heun(
    path: Path, clean: Clean, x: Latents, t: Times, r: Times, first: Latents
) -> dict[str, Tensor]:
    """Heun's step from t to r given x0 at t (`first`); Euler's where r is clean.

    Source: Karras et al., EDM (2022), algorithm 1.
    """
    ahead = {n: euler(path, x[n], first[n], t[n], r[n]) for n in x}
    second = clean(ahead, r)
    return {n: _heun(path, (x[n], ahead[n]), (first[n], second[n]), t[n], r[n]) for n in x}


def _heun(
    path: Path, x: tuple[Tensor, Tensor], x0: tuple[Tensor, Tensor], t: Tensor, r: Tensor
) -> Tensor:
    _, b = scales(path, r)
    ends = b <= 0.0
    v = 0.5 * (velocity(path, x[0], x0[0], t) + velocity(path, x[1], x0[1], r))
    there = x[0] + spread(r - t, x[0]) * v
    return torch.where(spread(ends.double(), x[0]) > 0.0, x[1], there)
