"""The parts of the quality report, each against a case whose answer is known."""

import numpy as np
import pytest
import torch

from onbeat.models.toybox.concepts import is_held_out
from onbeat.models.toybox.detector import detect
from onbeat.models.toybox.motions import motion_of
from onbeat.models.toybox.quality_codec import psnr, to_float, to_pixels
from onbeat.models.toybox.quality_events import true_sync
from onbeat.models.toybox.quality_frechet import Features, frechet
from onbeat.models.toybox.quality_gates import finite
from onbeat.models.toybox.quality_long import measure_long
from onbeat.models.toybox.quality_scenes import said_scenes, true_frames, true_scenes
from onbeat.models.toybox.quality_steering import measure_steering
from onbeat.models.toybox.weights import load_attributes, load_video_codec
from tests.models.quality_oracle import Oracle, fading, grey


def test_scenes_say_all_and_are_held_out_as_asked() -> None:
    for held_out in (False, True):
        said = said_scenes(3, 6, held_out=held_out)
        assert all(is_held_out(s.label.actors[0]) == held_out for s in said)
        batch = true_scenes(said, 2)
        assert [row[0] for row in batch.prompts] == [s.prompt for s in said]
        assert [row[0] for row in batch.attributes] == [s.label for s in said]


@pytest.mark.timeout(600)
def test_true_scenes_come_in_the_order_of_their_prompts() -> None:
    one, other = said_scenes(1, 2, held_out=False), said_scenes(2, 2, held_out=False)
    mixed = [one[0], other[0], one[1], other[1]]
    together = true_scenes(mixed, 1)
    for row, said in enumerate(mixed):
        alone = true_scenes([said], 1)
        assert together.prompts[row] == alone.prompts[0] == [said.prompt]
        assert np.array_equal(together.tracks.x[row], alone.tracks.x[0])


def test_motions_of_true_tracks() -> None:
    said = said_scenes(4, 12, held_out=False)
    seen = [motion_of(detect(clip)) for clip in true_frames(said, 5)]
    assert sum(m == s.motion for m, s in zip(seen, said, strict=True)) >= 11
    assert motion_of(detect(torch.zeros(12, 128, 128, 3, dtype=torch.uint8))) is None


def test_frechet_distance_of_gaussians() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((20_000, 4))
    assert frechet(a, a) == pytest.approx(0.0, abs=1e-9)
    assert frechet(a, a + 2.0) == pytest.approx(16.0, rel=0.01)
    assert frechet(a, 3.0 * rng.standard_normal((20_000, 4))) == pytest.approx(16.0, rel=0.05)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    wide, other = a * [1, 2, 3, 4], (a * [1, 2, 3, 4]) @ turn
    c, d = np.cov(wide.T), np.cov(other.T)
    root = np.linalg.eigvals(c @ d).real.clip(min=0) ** 0.5
    want = np.trace(c) + np.trace(d) - 2 * root.sum() + ((wide - other).mean(0) ** 2).sum()
    assert frechet(wide, other) == pytest.approx(want, rel=1e-4)


@pytest.mark.timeout(600)
def test_fading_streams_drift_and_die() -> None:
    said = said_scenes(6, 2, held_out=False, motions=("float",))
    features = Features(load_video_codec(), load_attributes())
    reading = measure_long(
        Oracle(said, spoil=fading),
        features,
        said,
        chunks=50,
        seed=0,
        steps=2,
        marks=[200],
    )
    assert reading.survival[1] == 0.0
    assert reading.figures["brightness_200"] < 0.5 * reading.figures["brightness_100"]
    assert reading.figures["drift_ratio_200"] > 2.0


@pytest.mark.timeout(600)
def test_steering_counts_from_the_worst_moment() -> None:
    said = said_scenes(7, 4, held_out=False)
    assert measure_steering(Oracle(said), said, 0, 2)["steering_s"] == pytest.approx(0.2)
    late = measure_steering(Oracle(said, late=5), said, 0, 2)
    assert late["steering_s"] == pytest.approx(1.2) and late["steering_within_1s"] == 0.0
    never = measure_steering(Oracle(said, spoil=grey), said, 0, 2)["steering_s"]
    assert never == float("inf") and finite(never) is None


@pytest.mark.timeout(600)
def test_seen_and_heard_agree_on_true_clips() -> None:
    figures = true_sync(3, 5, 20)
    assert figures["true_event_f1"] > 0.75
    assert figures["true_event_f1"] > figures["true_event_f1_shifted"] + 0.35
    assert figures["true_event_f1"] > figures["true_event_f1_shuffled"] + 0.35


def test_psnr_and_pixels() -> None:
    pixels = torch.randint(0, 256, (2, 8, 8, 3), dtype=torch.uint8)
    x = to_float(pixels)
    assert torch.equal(to_pixels(x), pixels)
    weights = torch.ones(2, 1, 8, 8)
    assert psnr(x + 0.02, x, weights) == pytest.approx(40.0, abs=0.01)
