"""What a picture of the toy world shows, by rules: background, object, colour, shape, track.

What it is: a measuring instrument for generated frames, built on the renderer's own palette,
backgrounds and outlines. What it is not: learned, or a judge of beauty; of two objects it reports
the larger. Its own error on true renders is what tests/models/test_detector.py demands.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor
from torch.nn import functional as F

from onbeat.models.toybox.backgrounds import background_loop
from onbeat.models.toybox.concepts import BACKGROUNDS, COLOURS, SHAPES, SIZE
from onbeat.models.toybox.render import outline_distance
from onbeat.models.toybox.scenes import RGB

Bools = NDArray[np.bool_]

CELLS = 16
BACKGROUND_SHARE = 0.5
"""Share of the cells, those that fit best, by which a background is judged."""
OFF_BACKGROUND = 0.11
"""A pixel belongs to an object if some channel differs this much from the background."""
PALETTE_REACH = 0.36
DARKEST = 0.5
SMALLEST_AREA = 0.02
"""Of the frame: what is smaller is no object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What f frames show. `centres` [f, 2] (x, y) in pixels and `areas` [f] as shares of the frame
    are nan where no object was found; `found` is the share of frames with one."""

    background: str
    background_margin: float
    found: float
    colour: str | None
    shape: str | None
    centres: NDArray[np.float64]
    areas: NDArray[np.float64]


@cache
def _background_cells() -> Tensor:
    """[8, 3, 16, 16] mean of each background over its loop, 0..1."""
    return F.adaptive_avg_pool2d(background_loop().float().mean(1) / 255.0, CELLS)


@cache
def _background_means() -> NDArray[np.float32]:
    """[8, 128, 128, 3] mean of each background over its loop, 0..1."""
    means: NDArray[np.float32] = (
        (background_loop().float().mean(1) / 255.0).permute(0, 2, 3, 1).numpy()
    )
    return means


@cache
def _palette() -> NDArray[np.float32]:
    """[8, 3] colours of objects with their largest channel at 1."""
    palette = np.array([RGB[c] for c in COLOURS], dtype=np.float32)
    palette /= palette.max(axis=1, keepdims=True)
    return palette


def background_distances(frames: Tensor) -> Tensor:
    """uint8 [f, 128, 128, 3] -> [8] distance to each background over the cells that fit best."""
    cells = F.adaptive_avg_pool2d(frames.permute(0, 3, 1, 2).float() / 255.0, CELLS)
    errors = (cells[:, None] - _background_cells()[None]).abs().mean(2).flatten(2)
    kept = errors.sort(dim=2).values[..., : int(CELLS * CELLS * BACKGROUND_SHARE)]
    return kept.mean(dim=(0, 2))


def _colour_classes(frame: NDArray[np.float32], background: int) -> NDArray[np.int64]:
    """[128, 128] index into COLOURS, -1 where there is no object."""
    value = frame.max(axis=2, keepdims=True)
    scaled = frame / np.maximum(value, 1e-3)
    palette = _palette()
    square = (scaled**2).sum(-1, keepdims=True) + (palette**2).sum(-1)
    gaps = np.sqrt(np.maximum(square - 2.0 * (scaled @ palette.T), 0.0))
    off = np.abs(frame - _background_means()[background]).max(axis=2) > OFF_BACKGROUND
    vivid = off & (gaps.min(axis=2) < PALETTE_REACH) & (value[..., 0] > DARKEST)
    return np.where(vivid, gaps.argmin(axis=2), -1)


def _largest(mask: Bools) -> tuple[Bools, int]:
    """The largest connected part of a mask, and its pixels."""
    labels, count = ndimage.label(mask)
    if count == 0:
        return mask, 0
    sizes = np.bincount(labels.ravel())[1:]
    part: Bools = labels == 1 + int(sizes.argmax())
    return part, int(sizes.max())


def find_blob(frame: NDArray[np.uint8], background: int) -> tuple[str, Bools] | None:
    """Colour and mask of the largest object of a frame, if there is one."""
    classes = _colour_classes(frame.astype(np.float32) / 255.0, background)
    best: tuple[str, Bools] | None = None
    most = SMALLEST_AREA * SIZE * SIZE
    for k, colour in enumerate(COLOURS):
        if np.count_nonzero(classes == k) < most:
            continue
        part, size = _largest(ndimage.binary_opening(classes == k, iterations=1))
        if size > most:
            best, most = (colour, ndimage.binary_closing(part, iterations=1)), size
    return best


@cache
def _template(shape: str) -> tuple[float, float, float]:
    """Centroid offset x, y and area of an outline of radius 1 (the frame's side is 4)."""
    axis = torch.linspace(-2, 2, 512)
    inside = outline_distance(shape, axis[None], axis[:, None], torch.tensor(1.0)) < 0
    area = float(inside.float().mean()) * 16.0
    x, y = (axis[None] * inside).sum(), (axis[:, None] * inside).sum()
    return float(x / inside.sum()), float(y / inside.sum()), area


def shape_overlaps(mask: Bools) -> NDArray[np.float64]:
    """[5] overlap (intersection over union) of a mask with each outline at its place and size."""
    y, x = (float(v.mean()) for v in mask.nonzero())
    axis = torch.arange(0, SIZE, 2, dtype=torch.float32)
    want = torch.from_numpy(mask[::2, ::2])
    overlaps = []
    for shape in SHAPES:
        dx, dy, area = _template(shape)
        r = float(np.sqrt(mask.sum() / area))
        d = outline_distance(
            shape, axis[None] - x + dx * r, axis[:, None] - y + dy * r, torch.tensor(r)
        )
        got = d < 0
        overlaps.append(float((got & want).sum()) / float((got | want).sum()))
    return np.array(overlaps)


def detect(frames: Tensor) -> Detection:
    """uint8 RGB [f, 128, 128, 3] of one unchanging scene -> what they show."""
    distances = background_distances(frames)
    order = distances.argsort()
    background = int(order[0])
    votes = dict.fromkeys(COLOURS, 0.0)
    overlaps = np.zeros(len(SHAPES))
    centres, areas = np.full((len(frames), 2), np.nan), np.full(len(frames), np.nan)
    for i, frame in enumerate(frames.numpy()):
        blob = find_blob(frame, background)
        if blob is None:
            continue
        colour, mask = blob
        votes[colour] += float(mask.sum())
        overlaps += shape_overlaps(mask)
        filled = ndimage.binary_fill_holes(mask)
        centres[i] = [v.mean() for v in reversed(filled.nonzero())]
        areas[i] = mask.mean()
    found = float(np.isfinite(areas).mean())
    return Detection(
        background=BACKGROUNDS[background],
        background_margin=float(distances[order[1]] - distances[order[0]]),
        found=found,
        colour=max(votes, key=lambda c: votes[c]) if found else None,
        shape=SHAPES[int(overlaps.argmax())] if found else None,
        centres=centres,
        areas=areas,
    )
