"""The detector's own error on true renders: backgrounds, objects, colours, shapes, tracks."""

import numpy as np
import torch

from onbeat.models.toybox.concepts import SIZE
from onbeat.models.toybox.detector import detect
from onbeat.models.toybox.render import render
from onbeat.models.toybox.scenes import sample_scenes

SCENES = 100


def test_true_renders_are_read_right() -> None:
    batch = sample_scenes(77, SCENES, 1, change_probability=0.0, one_object=True)
    frames, _ = render(batch, 0, 2)
    right = dict.fromkeys(("background", "found", "colour", "shape"), 0)
    for clip, labels in zip(frames, batch.attributes, strict=True):
        seen, label = detect(clip), labels[0]
        right["background"] += seen.background == label.background
        right["found"] += seen.found == 1.0
        right["colour"] += seen.colour == label.actors[0].colour
        right["shape"] += seen.shape == label.actors[0].shape
    assert right["background"] >= 0.99 * SCENES
    assert right["found"] >= 0.99 * SCENES
    assert right["colour"] >= 0.98 * SCENES
    assert right["shape"] >= 0.95 * SCENES


def test_steps_of_the_track_are_those_of_the_actor() -> None:
    batch = sample_scenes(78, 20, 2, change_probability=0.0, one_object=True)
    frames, _ = render(batch, 0, 8)
    for i, clip in enumerate(frames):
        true = np.stack([batch.tracks.x[i, :, 0], batch.tracks.y[i, :, 0]], axis=-1) * SIZE
        error = np.diff(detect(clip).centres, axis=0) - np.diff(true, axis=0)
        assert np.abs(error).mean() < 0.6


def test_empty_backgrounds_and_noise_hold_no_object() -> None:
    batch = sample_scenes(79, 16, 1, change_probability=0.0, one_object=True)
    batch.tracks.opacity[:] = 0.0
    frames, _ = render(batch, 0, 1)
    for clip, labels in zip(frames, batch.attributes, strict=True):
        seen = detect(clip)
        assert seen.background == labels[0].background
        assert seen.found == 0.0 and seen.colour is None and np.isnan(seen.centres).all()
    grain = torch.randint(0, 256, (1, SIZE, SIZE, 3), generator=torch.Generator().manual_seed(0))
    assert detect(grain.to(torch.uint8)).found == 0.0
