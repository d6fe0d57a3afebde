"""The eight backgrounds of the toy world as short endless loops.

What it is: smooth gradients with large soft moving texture, drawn once. What it is not: random;
every clip sees the same loops from another starting frame. All are dark enough that the bright
actors stand out.
"""

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from onbeat.models.toybox.concepts import BACKGROUNDS, SIZE
from onbeat.models.toybox.scenes import LOOP_FRAMES

Rgb = tuple[float, float, float]
TAU = 2.0 * math.pi


def _grid() -> tuple[Tensor, Tensor, Tensor]:
    """x [1, 1, w], y [1, h, 1] in 0..1 and turn [n, 1, 1], the angle of the loop."""
    axis = (torch.arange(SIZE) + 0.5) / SIZE
    turn = torch.arange(LOOP_FRAMES) * (TAU / LOOP_FRAMES)
    return axis[None, None], axis[None, :, None], turn[:, None, None]


def _ramp(y: Tensor, stops: list[tuple[float, Rgb]]) -> Tensor:
    """[1, 3, h, 1] colours interpolated between stops (height, colour)."""
    planes = torch.zeros(1, 3, SIZE, 1)
    for (y0, c0), (y1, c1) in zip(stops[:-1], stops[1:], strict=True):
        inside = ((y >= y0) & (y < y1))[:, None]
        w = ((y - y0) / (y1 - y0))[:, None]
        low, high = torch.tensor(c0).view(1, 3, 1, 1), torch.tensor(c1).view(1, 3, 1, 1)
        planes = torch.where(inside, low + (high - low) * w, planes)
    return planes


def _tint(amount: Tensor, colour: Rgb) -> Tensor:
    """[n, 3, h, w]: amount [n, h, w] of a colour."""
    return amount[:, None] * torch.tensor(colour).view(1, 3, 1, 1)


def _soft(d: Tensor, width: float) -> Tensor:
    """1 where d < 0, falling to 0 over `width`."""
    return torch.sigmoid(-4.0 * d / width)


def _dots(x: Tensor, y: Tensor, places: list[tuple[float, float]], size: float) -> list[Tensor]:
    return [torch.exp(-((x - px) ** 2 + (y - py) ** 2) / size**2) for px, py in places]


def _stars() -> Tensor:
    x, y, turn = _grid()
    places = [((0.07 + 0.618034 * k) % 1, (0.06 + 0.29 * k) % 1) for k in range(12)]
    sky = _ramp(y, [(0.0, (0.02, 0.02, 0.10)), (1.001, (0.07, 0.03, 0.20))])
    light = sum(
        dot * (0.55 + 0.25 * torch.sin(turn * (1 + k % 2) + 2.4 * k))
        for k, dot in enumerate(_dots(x, y, places, 0.022))
    )
    assert isinstance(light, Tensor)
    return sky + _tint(light, (0.8, 0.85, 1.0))


def _sunset() -> Tensor:
    x, y, turn = _grid()
    sky = _ramp(
        y,
        [
            (0.0, (0.22, 0.08, 0.32)),
            (0.45, (0.62, 0.20, 0.25)),
            (0.72, (0.75, 0.42, 0.15)),
            (0.74, (0.20, 0.08, 0.10)),
            (1.001, (0.10, 0.04, 0.08)),
        ],
    )
    cloud = torch.exp(-(((y - 0.3 - 0.02 * torch.sin(TAU * x + turn)) / 0.06) ** 2))
    return sky + _tint(cloud, (0.10, 0.03, 0.02))


def _sea() -> Tensor:
    x, y, turn = _grid()
    sky = _ramp(
        y,
        [
            (0.0, (0.22, 0.42, 0.62)),
            (0.42, (0.50, 0.62, 0.68)),
            (0.44, (0.04, 0.26, 0.36)),
            (1.001, (0.01, 0.12, 0.24)),
        ],
    )
    below = 1 - _soft(y - 0.46, 0.06)
    wave = torch.sin(TAU * (5.0 * y + 0.0 * x) - turn * 2 + 1.5 * torch.sin(TAU * x + turn))
    return sky + _tint(below * wave, (0.03, 0.06, 0.06))


def _meadow() -> Tensor:
    x, y, turn = _grid()
    sky = _ramp(y, [(0.0, (0.26, 0.46, 0.66)), (1.001, (0.62, 0.70, 0.70))])
    ridge = 0.60 + 0.05 * torch.sin(TAU * x + 0.6)
    ground = _soft(ridge - y, 0.03)
    sway = 0.03 * torch.sin(TAU * (2 * x + 1.5 * y) + turn)
    grass = _ramp(y, [(0.0, (0.16, 0.46, 0.10)), (1.001, (0.07, 0.26, 0.05))]).expand(
        1, 3, SIZE, SIZE
    )
    return sky + ground[:, None] * (grass - sky) + _tint(ground * sway, (0.6, 1.0, 0.3))


def _desert() -> Tensor:
    x, y, turn = _grid()
    sky = _ramp(y, [(0.0, (0.44, 0.48, 0.46)), (1.001, (0.66, 0.56, 0.36))])
    far = _soft(0.55 + 0.06 * torch.sin(TAU * x + 2.0) - y, 0.03)
    near = _soft(0.74 + 0.06 * torch.sin(TAU * x * 1.5 + 4.5) - y, 0.03)
    heat = 0.02 * torch.sin(TAU * (3 * y + x) + turn)
    picture = sky + far[:, None] * (torch.tensor((0.55, 0.38, 0.17)).view(1, 3, 1, 1) - sky)
    picture = picture + near[:, None] * (
        torch.tensor((0.40, 0.25, 0.10)).view(1, 3, 1, 1) - picture
    )
    return picture + _tint(heat * (1 - near), (1.0, 0.8, 0.4))


def _snow() -> Tensor:
    x, y, turn = _grid()
    sky = _ramp(y, [(0.0, (0.40, 0.46, 0.56)), (1.001, (0.58, 0.62, 0.68))])
    ground = _soft(0.68 + 0.04 * torch.sin(TAU * x + 3.0) - y, 0.03)
    white = torch.tensor((0.74, 0.78, 0.84)).view(1, 3, 1, 1)
    picture = sky + ground[:, None] * (white - sky)
    for k in range(7):
        px, py0 = (0.09 + 0.618034 * k) % 1, 0.37 * k
        py = (py0 + turn / TAU) % 1.0 * 1.2 - 0.1
        sway = px + 0.03 * torch.sin(turn * 2 + k)
        flake = torch.exp(-((x - sway) ** 2 + (y - py) ** 2) / 0.024**2)
        picture = picture + _tint(flake, (0.25, 0.25, 0.25))
    return picture


def _city() -> Tensor:
    x, y, turn = _grid()
    sky = _ramp(y, [(0.0, (0.03, 0.04, 0.07)), (0.8, (0.30, 0.16, 0.22)), (1.001, (0.3, 0.2, 0.2))])
    picture = sky.expand(LOOP_FRAMES, 3, SIZE, SIZE)
    heights = (0.50, 0.62, 0.42, 0.68, 0.54, 0.46, 0.64)
    for k, top in enumerate(heights):
        left, right = k / 7, (k + 1) / 7
        body = _soft(left - x + 0.006, 0.02) * _soft(x - right + 0.006, 0.02) * _soft(top - y, 0.02)
        picture = picture * (1 - body[:, None]) + _tint(body, (0.05, 0.07, 0.11))
    places = [((k % 7 + 0.5) / 7, 0.73 + 0.11 * (k // 7)) for k in range(21) if (k * 5) % 7 != 2]
    for k, dot in enumerate(_dots(x, y, places, 0.032)):
        picture = picture + _tint(dot * (0.75 + 0.2 * torch.sin(turn + 1.9 * k)), (0.75, 0.58, 0.2))
    return picture


def _rain() -> Tensor:
    x, y, turn = _grid()
    sky = _ramp(y, [(0.0, (0.20, 0.22, 0.24)), (1.001, (0.34, 0.36, 0.37))])
    slant = torch.sin(TAU * (5 * x + 1.0 * y) - turn * 1)
    drops = torch.sin(TAU * (2 * y + 1 * x) - turn * 8)
    return sky + _tint(0.05 * (slant.clamp(min=0) * (0.6 + 0.4 * drops)), (0.9, 1.0, 1.1))


PAINTERS: dict[str, Callable[[], Tensor]] = {
    "stars": _stars,
    "sunset": _sunset,
    "sea": _sea,
    "meadow": _meadow,
    "desert": _desert,
    "snow": _snow,
    "city": _city,
    "rain": _rain,
}


@cache
def background_loop() -> Tensor:
    """uint8 [8, LOOP_FRAMES, 3, 128, 128] in the order of BACKGROUNDS; drawn on first use."""
    loops = []
    for name in BACKGROUNDS:
        picture = PAINTERS[name]().expand(LOOP_FRAMES, 3, SIZE, SIZE)
        loops.append(picture.clamp(0, 1).mul(255).add(0.5).to(torch.uint8))
    return torch.stack(loops)
