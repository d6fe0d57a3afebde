"""Pictures of scenes: soft glowing shapes before gently moving backgrounds.

What it is: a vectorised rasteriser on CPU, a pure function of a scene's tracks. What it is not:
sampling of scenes. Softness is on purpose: light suits a small codec better than edges.
"""

import torch
from torch import Tensor

from onbeat.models.toybox.backgrounds import background_loop
from onbeat.models.toybox.concepts import MAX_ACTORS, SHAPES, SIZE
from onbeat.models.toybox.scenes import SceneBatch

SLICE = 8
"""Frames drawn at once: planes stay in the cache."""
EDGE = 0.012
"""Width of a shape's soft edge, in frame sides."""
GLOW = 0.05
SHADOW = 0.035


def outline_distance(shape: str, x: Tensor, y: Tensor, r: Tensor) -> Tensor:
    """About the signed distance to the outline, negative inside; x, y from the centre, y down."""
    if shape == "square":
        corner = 0.25 * r
        inner = 0.86 * r - corner
        dx, dy = x.abs() - inner, y.abs() - inner
        outside = (dx.clamp(min=0).square() + dy.clamp(min=0).square()).sqrt()
        return outside + torch.maximum(dx, dy).clamp(max=0) - corner
    if shape == "heart":
        u = x.abs() / r
        v = -y / r * 1.05 + 0.12 - 0.62 * (u + 0.02).sqrt()
        return ((u.square() + v.square()).sqrt() - 0.92) * r * 0.8
    length = (x.square() + y.square()).sqrt()
    if shape == "ball":
        return length - r
    if shape == "ring":
        return (length - 0.72 * r).abs() - 0.28 * r
    assert shape == "star", shape
    c = -y / (length + 1e-6)
    five = c * (5.0 + c.square() * (16.0 * c.square() - 20.0))
    return (length - r * (0.80 + 0.24 * five)) * 0.8


def _blended_distance(weights: Tensor, x: Tensor, y: Tensor, r: Tensor) -> Tensor:
    """[n, h, w] distance under shape weights [n, 5]."""
    total = torch.zeros_like(x)
    for k, shape in enumerate(SHAPES):
        rows = weights[:, k].nonzero()[:, 0]
        if len(rows):
            d = outline_distance(shape, x[rows], y[rows], r[rows])
            total[rows] += weights[rows, k, None, None] * d
    return total


def _draw_actor(picture: Tensor, actor: dict[str, Tensor], grid: Tensor) -> Tensor:
    """Composites one actor into `picture` [n, 3, h, w] in place; returns its cover [n, h, w]."""
    r = actor["radius"][:, None, None]
    x = (grid[None, None, :] - actor["x"][:, None, None]).expand(-1, SIZE, -1)
    y = (grid[None, :, None] - actor["y"][:, None, None]).expand(-1, -1, SIZE)
    d = _blended_distance(actor["shape"], x, y, r)
    shown = actor["opacity"][:, None, None]
    cover = (0.5 - d / EDGE).clamp_(0, 1) * shown
    outside = d.clamp(min=0)
    shadow = torch.exp(-(outside / SHADOW).square()) * (0.62 * shown)
    glow = torch.exp(-outside / GLOW) * (0.22 * shown)
    depth = (-d / r).clamp_(0, 0.5)
    shine = 0.80 + 0.40 * depth
    for c in range(3):
        rgb = actor["rgb"][:, c, None, None]
        plane = picture[:, c]
        plane.mul_(1 - shadow).add_(glow * rgb)
        plane.add_(cover * ((rgb * shine).clamp_(max=1) - plane))
    return cover


def _draw(tracks: dict[str, Tensor], picture: Tensor) -> tuple[Tensor, Tensor]:
    grid = (torch.arange(SIZE) + 0.5) / SIZE
    mask = torch.zeros(picture.shape[0], SIZE, SIZE)
    for a in range(MAX_ACTORS):
        rows = tracks["opacity"][:, a].nonzero()[:, 0]
        if len(rows) == 0:
            continue
        actor = {k: v[rows, a] for k, v in tracks.items()}
        part = picture[rows]
        cover = _draw_actor(part, actor, grid)
        picture[rows] = part
        mask[rows] = torch.maximum(mask[rows], cover)
    pixels = picture.clamp_(0, 1).mul_(255).add_(0.5).to(torch.uint8)
    return pixels.permute(0, 2, 3, 1), mask


def _backdrop(weights: Tensor, index: Tensor) -> Tensor:
    """float [n, 3, h, w] in 0..1 from background weights [n, 8] and loop frames [n]."""
    loop = background_loop()
    picture = torch.zeros(len(index), 3, SIZE, SIZE)
    for k in range(weights.shape[1]):
        rows = weights[:, k].nonzero()[:, 0]
        if len(rows):
            scale = weights[rows, k, None, None, None] / 255.0
            picture[rows] += loop[k, index[rows]] * scale
    return picture


def render(batch: SceneBatch, first_frame: int, frames: int) -> tuple[Tensor, Tensor]:
    """Frames `first_frame`.. of every clip: uint8 RGB [b, f, 128, 128, 3] and how much of each
    pixel an actor covers, float32 [b, f, 128, 128]."""
    t = batch.tracks
    last = first_frame + frames
    assert 0 <= first_frame < last <= t.x.shape[1], (first_frame, frames, t.x.shape)
    names = ("x", "y", "radius", "opacity", "shape", "rgb", "background")
    flat = {n: torch.from_numpy(getattr(t, n)[:, first_frame:last]).flatten(0, 1) for n in names}
    weights = flat.pop("background")
    loop = background_loop().shape[1]
    index = torch.from_numpy(t.phase)[:, None] + torch.arange(first_frame, last)[None]
    index = (index % loop).flatten()
    pixels, masks = [], []
    for i in range(0, len(index), SLICE):
        rows = slice(i, i + SLICE)
        drawn = _draw({k: v[rows] for k, v in flat.items()}, _backdrop(weights[rows], index[rows]))
        pixels.append(drawn[0])
        masks.append(drawn[1])
    shape = (batch.count, frames, SIZE, SIZE)
    return torch.cat(pixels).reshape(*shape, 3), torch.cat(masks).reshape(shape)
