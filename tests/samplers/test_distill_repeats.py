"""A short stage of the route gives the same bits from the same seed, and others from another."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.samplers.distill import teacher
from onbeat.samplers.distill.route import run_stage
from onbeat.samplers.distill.teacher import generator_of, train_pictures


def stage(out: Path, seed: int) -> dict[str, Tensor]:
    """Two steps of single chunks with codecs of random weights."""
    torch.manual_seed(9)
    codecs = VideoCodec().eval(), AudioCodec().eval()
    run = train_pictures(codecs, 60.0, out, seed, resume=True, warm=16, steps=2)
    assert run.step == 2
    return run.nets.state_dict() | {f"ema.{k}": v for k, v in run.ema.state_dict().items()}


@pytest.mark.timeout(600)
def test_a_short_stage_repeats_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teacher, "write_samples", lambda *a, **k: {})
    monkeypatch.setattr(teacher, "PICTURE_PIECE", 2)
    monkeypatch.setattr(teacher, "PICTURE_COPIES", 2)
    one, again = stage(tmp_path / "a", 3), stage(tmp_path / "b", 3)
    assert all(torch.equal(one[name], again[name]) for name in one)
    other = stage(tmp_path / "c", 4)
    assert not torch.equal(
        one["denoiser.blocks.0.qkv.weight"], other["denoiser.blocks.0.qkv.weight"]
    )


def test_every_seed_and_step_has_draws_of_its_own() -> None:
    draws = {
        float(torch.rand((), generator=generator_of(seed, step)))
        for seed in (0, 1, 2**32)
        for step in (0, 1, 2**31)
    }
    assert len(draws) == 9


def test_a_stage_without_steps_says_so(tmp_path: Path) -> None:
    told = "steps is 5 at stage 'ae'; allowed: teacher, consistency, grpo"
    with pytest.raises(ValueError, match=told):
        run_stage("ae", minutes=1.0, out=tmp_path, steps=5)
