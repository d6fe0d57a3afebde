"""What a network predicts, as two numbers: the clean latents are cx x + cp prediction.

Every family's prediction and boundary rule is linear in x and in the network's output, so that all
of them are plain coefficients in float64. No tensors, and no network.

    x0        the clean latents themselves
    eps       the noise
    v         the velocity dx/dt along the path (on `vp`, along its angle: a eps - b x0)
    data_v    the velocity towards the data, -v (rf only)
    network   the raw output F of a preconditioned network: EDM scalings on `edm`, on `trig`
              x0 = cos(t) x - sin(t) sigma_data F

Boundary rules, which make f(x, clean) = x: `edm` is c_skip x + c_out F, `lcm` is c_skip x +
c_out x0 with x0 from the prediction. The others need none: f(x, 0) = x holds by itself.
Sources: Song et al., Consistency Models (2023), appendix C; Luo et al., LCM (2023), section 4.
"""

import math
from dataclasses import dataclass
from typing import Literal

from onbeat.samplers.paths import Path

Prediction = Literal["x0", "eps", "v", "data_v", "network"]
BoundaryKind = Literal["none", "edm", "lcm"]


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """A boundary rule. `sigma_data` of the data; `scaling` of the time (`lcm` alone)."""

    kind: BoundaryKind = "none"
    sigma_data: float = 0.5
    scaling: float = 10.0

    def check(self, path: Path, prediction: Prediction) -> None:
        """Raises ValueError where the rule does not fit the path or the prediction."""
        needed = {"edm": "edm", "lcm": "vp"}.get(self.kind, path.kind)
        if path.kind != needed:
            raise ValueError(f"boundary is {self.kind!r}; allowed: on the path {needed!r}")
        if (self.kind == "edm") != (prediction == "network" and path.kind == "edm"):
            raise ValueError(
                f"prediction is {prediction!r} with the boundary {self.kind!r}; "
                "allowed: 'network' on the path 'edm' needs the boundary 'edm', and only that"
            )


NO_BOUNDARY = Boundary()


def check_prediction(path: Path, prediction: Prediction, first: float) -> None:
    """Raises ValueError for a prediction that says nothing about x0 at time `first`."""
    paths = {"data_v": ("rf",), "network": ("edm", "trig")}.get(prediction, (path.kind,))
    if path.kind not in paths:
        raise ValueError(f"prediction is {prediction!r}; allowed: on the paths {', '.join(paths)}")
    if prediction == "eps" and path.scales(first)[0] <= 0.0:
        raise ValueError(f"prediction is 'eps' at t = {first}, where there is only noise")


def clean_scales(
    path: Path, prediction: Prediction, boundary: Boundary, t: float
) -> tuple[float, float]:
    """(cx, cp): the clean latents are cx x_t + cp prediction."""
    if boundary.kind == "edm":
        return _edm_boundary(path, boundary, t)
    cx, cp = _plain(path, prediction, t)
    if boundary.kind == "none":
        return cx, cp
    sd, scaled = boundary.sigma_data, boundary.scaling * max(t, 0.0)
    skip = sd**2 / (scaled**2 + sd**2)
    out = scaled / math.hypot(scaled, sd)
    return skip + out * cx, out * cp


def _plain(path: Path, prediction: Prediction, t: float) -> tuple[float, float]:
    a, b = path.scales(t)
    if prediction == "x0":
        return 0.0, 1.0
    if prediction == "eps":
        return 1.0 / a, -b / a
    if prediction == "network":
        return a, -b
    if path.kind in ("rf", "edm"):
        return 1.0, t if prediction == "data_v" else -t
    return a, -b / path.sigma_data


def _edm_boundary(path: Path, boundary: Boundary, sigma: float) -> tuple[float, float]:
    sd, above = boundary.sigma_data, sigma - path.sigma_min
    return sd**2 / (above**2 + sd**2), above * sd / math.hypot(sigma, sd)


def input_scale(path: Path, prediction: Prediction, boundary: Boundary, t: float) -> float:
    """What x is multiplied by on its way into the network (c_in)."""
    if boundary.kind == "edm":
        return 1.0 / math.hypot(t, boundary.sigma_data)
    return 1.0 / path.sigma_data if prediction == "network" else 1.0
