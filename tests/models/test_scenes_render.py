"""The renderer: right shapes, a pure function of the scene, actors where the tracks say."""

import numpy as np
import torch

from onbeat.models.toybox.backgrounds import background_loop
from onbeat.models.toybox.concepts import SIZE
from onbeat.models.toybox.render import render
from onbeat.models.toybox.scenes import LOOP_FRAMES, sample_scenes


def test_shapes_types_and_ranges() -> None:
    frames, mask = render(sample_scenes(0, 3, 2), 2, 5)
    assert frames.shape == (3, 5, SIZE, SIZE, 3) and frames.dtype == torch.uint8
    assert mask.shape == (3, 5, SIZE, SIZE) and mask.dtype == torch.float32
    assert 0.0 <= float(mask.min()) and float(mask.max()) <= 1.0


def test_any_cut_of_a_clip_gives_the_same_frames() -> None:
    batch = sample_scenes(4, 2, 4)
    whole, _ = render(batch, 0, 16)
    part, _ = render(batch, 5, 3)
    assert torch.equal(whole[:, 5:8], part)


def test_mask_is_centred_on_the_track() -> None:
    batch = sample_scenes(8, 40, 1, one_object=True, change_probability=0.0)
    _, mask = render(batch, 0, 1)
    axis = (torch.arange(SIZE) + 0.5) / SIZE
    x = (mask[:, 0] * axis).sum((1, 2)) / mask[:, 0].sum((1, 2))
    assert np.abs(x.numpy() - batch.tracks.x[:, 0, 0]).max() < 0.01


def test_objects_stand_out_from_what_is_behind_them() -> None:
    batch = sample_scenes(9, 64, 1, one_object=True, change_probability=0.0)
    frames, mask = render(batch, 0, 1)
    index = torch.from_numpy(batch.tracks.phase) % LOOP_FRAMES
    names = torch.from_numpy(batch.tracks.background[:, 0].argmax(1))
    behind = background_loop()[names, index].permute(0, 2, 3, 1).float()
    gap = (frames[:, 0].float() - behind).abs().amax(-1)
    inside = mask[:, 0] > 0.9
    assert min(float(g[m].mean()) for g, m in zip(gap, inside, strict=True)) > 25.0


def test_backgrounds_loop_without_a_jump() -> None:
    loop = background_loop().float()
    steps = (loop - loop.roll(1, dims=1)).abs().mean((2, 3, 4))
    assert bool((steps[:, 0] <= steps.amax(1) * 1.01).all())
    assert float(steps.max()) < 6.0
