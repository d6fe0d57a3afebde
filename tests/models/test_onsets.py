"""Onsets: known events are found in true renders, scores are right on hand-made lists."""

import pytest
import torch

from onbeat.models.toybox.onsets import (
    chance_f1,
    detect_onsets,
    distinct_times,
    event_f1,
    pooled_score,
)
from onbeat.models.toybox.scenes import sample_scenes
from onbeat.models.toybox.sound import render_audio


def test_events_of_true_renders_are_found() -> None:
    scenes = sample_scenes(11, 24, 24)
    truth = [distinct_times([e.time for e in row]) for row in scenes.events]
    pairs = [
        (detect_onsets(w, 24_000), t) for w, t in zip(render_audio(scenes), truth, strict=True)
    ]
    score = pooled_score(pairs)
    assert score.f1 >= 0.9
    assert abs(score.offset) <= 0.005
    assert chance_f1(pairs, scenes.seconds) < 0.35


def test_rates_and_types_agree() -> None:
    wave = render_audio(sample_scenes(3, 1, 24))[0]
    as_int = (wave * 32_767).round().to(torch.int16)
    assert detect_onsets(as_int, 24_000) == pytest.approx(detect_onsets(wave, 24_000), abs=0.006)


def test_silence_has_no_onset() -> None:
    assert detect_onsets(torch.zeros(24_000), 24_000) == []


def test_scores_of_known_lists() -> None:
    f1, offset = event_f1([0.52, 1.0, 1.9], [0.5, 1.0])
    assert f1 == pytest.approx(0.8) and offset == pytest.approx(0.01)
    assert event_f1([0.56], [0.5]) == (0.0, 0.0)
    assert event_f1([], []) == (1.0, 0.0)
    assert event_f1([0.5, 0.51], [0.5])[0] == pytest.approx(2 / 3)


def test_chance_of_a_single_far_event_is_zero() -> None:
    assert chance_f1([([0.5], [0.5])], 2.0) == 0.0


def test_close_times_merge() -> None:
    assert distinct_times([0.3, 0.1, 0.12, 0.16]) == [0.1, 0.16, 0.3]
