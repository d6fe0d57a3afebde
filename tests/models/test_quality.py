"""Quality figures: a generator that renders the truth scores well, one that does not scores ill."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from onbeat.models.toybox import quality
from onbeat.models.toybox.quality_codec import psnr, to_float, to_pixels
from onbeat.models.toybox.render import render
from onbeat.models.toybox.scenes import sample_scenes
from onbeat.models.toybox.sound import render_audio


def _truth(prompt: str, seed: int, chunks: int, steps: int) -> tuple[Tensor, Tensor]:
    """The true scene that `said_scenes(0, 6)` took a prompt from."""
    batch = sample_scenes(0, 48, chunks, change_probability=0.0, one_object=True)
    i = [row[0] for row in batch.prompts].index(prompt)
    frames, _ = render(batch, 0, 4 * chunks)
    return frames[i], render_audio(batch)[i]


def _grey(prompt: str, seed: int, chunks: int, steps: int) -> tuple[Tensor, Tensor]:
    frames = torch.full((4 * chunks, 128, 128, 3), 90, dtype=torch.uint8)
    return frames, torch.zeros(chunks * 4800)


def test_the_truth_is_right_and_grey_is_wrong(tmp_path: Path) -> None:
    good = quality.measure_prompts(_truth, 6, 0, 2, tmp_path / "sheet.png")
    assert good == {f"{k}_right": 1.0 for k in ("background", "object", "colour", "shape", "all")}
    assert (tmp_path / "sheet.png").stat().st_size > 10_000
    bad = quality.measure_prompts(_grey, 6, 0, 2)
    assert bad["object_right"] == bad["colour_right"] == bad["all_right"] == 0.0


def test_drift_of_the_truth_is_none_and_of_a_frozen_clip_shows() -> None:
    batch = sample_scenes(2, 2, 50, change_probability=0.0)
    frames, _ = render(batch, 0, 200)
    same = quality.measure_drift(list(frames), list(frames))
    assert all(0.6 < v < 1.6 for v in same.values())
    frozen = frames[:, :1].expand(-1, 200, -1, -1, -1)
    assert quality.measure_drift(list(frozen), list(frames))["motion_last"] == 0.0


def test_seen_and_heard_agree_on_true_clips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "LONG_CHUNKS", 20)
    figures = quality.true_sync(3, 6)
    assert figures["true_onset_f1"] > 0.75
    assert figures["true_onset_f1"] > figures["true_onset_chance"] + 0.35


def test_psnr_and_pixels() -> None:
    pixels = torch.randint(0, 256, (2, 8, 8, 3), dtype=torch.uint8)
    x = to_float(pixels)
    assert torch.equal(to_pixels(x), pixels)
    weights = torch.ones(2, 1, 8, 8)
    assert psnr(x + 0.02, x, weights) == pytest.approx(40.0, abs=0.01)


def test_figures_end_with_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, lines in ((False, 2), (True, 1)):
        quality.print_figures({"psnr": 31.25}, quiet)
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) == lines and json.loads(printed[-1]) == {"psnr": 31.25}
