"""Which checkpoint a weights file is made of: the latest stage that follows from the others."""

import shutil
from pathlib import Path

import pytest
import torch

from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.models.toybox.weights import load_toybox
from onbeat.samplers.distill import route
from onbeat.samplers.distill.grpo import STUDENT
from onbeat.samplers.distill.loop import new_run, save_run
from onbeat.samplers.distill.networks import Networks


def trained(out: Path, stage: str) -> Path:
    (out / stage).mkdir()
    save_run(new_run(Networks(ToyboxConfig())), out / stage / "state.pt")
    return out / stage / "state.pt"


def test_the_latest_stage_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    monkeypatch.setattr(route, "load_codecs", lambda out: (VideoCodec(), AudioCodec()))
    target = tmp_path / "weights.safetensors"

    def packed() -> str:
        return route.pack_weights(tmp_path, target, 1).parent.name

    with pytest.raises(FileNotFoundError, match="run the stage: teacher"):
        packed()
    trained(tmp_path, "sequences")
    assert packed() == "sequences" and load_toybox(weights=target).spec.name == "toybox"
    student = trained(tmp_path, "consistency")
    assert packed() == "consistency"
    trained(tmp_path, "grpo")
    shutil.copy(student, tmp_path / "grpo" / STUDENT)
    assert packed() == "grpo"
    save_run(new_run(Networks(ToyboxConfig())), student)
    assert packed() == "consistency"
    shutil.rmtree(student.parent)
    assert packed() == "sequences"


def test_policy_gradients_begin_with_what_is_served(tmp_path: Path) -> None:
    assert route.student_of(tmp_path) is None
    sequences = trained(tmp_path, "sequences")
    assert route.student_of(tmp_path) == sequences
    assert route.student_of(tmp_path) != trained(tmp_path, "consistency")
    assert route.student_of(tmp_path) == tmp_path / "consistency" / "state.pt"


def test_the_average_lies_between_and_lasts_as_long_as_what_it_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "load_codecs", lambda out: (VideoCodec(), AudioCodec()))
    with pytest.raises(FileNotFoundError, match="run the stage: teacher"):
        route.run_stage("average", minutes=1, out=tmp_path)
    ends = []
    for name in ("sequences", "consistency"):
        torch.manual_seed(len(name))
        trained(tmp_path, name)
        ends.append(torch.load(tmp_path / name / "state.pt")["ema"])
    route.run_stage("average", minutes=1, out=tmp_path)
    made = torch.load(tmp_path / "average" / "state.pt")
    for name, value in made["ema"].items():
        want = torch.lerp(ends[0][name], ends[1][name], 0.3)
        torch.testing.assert_close(value, want, msg=name)
        assert torch.equal(made["nets"][name], value), name
    target = tmp_path / "weights.safetensors"
    assert route.student_of(tmp_path) == tmp_path / "average" / "state.pt"
    assert route.pack_weights(tmp_path, target, 1).parent.name == "average"
    save_run(new_run(Networks(ToyboxConfig())), tmp_path / "sequences" / "state.pt")
    assert route.pack_weights(tmp_path, target, 1).parent.name == "consistency"


def test_policy_gradients_without_the_few_step_stage_are_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "load_codecs", lambda out: (VideoCodec(), AudioCodec()))
    student = trained(tmp_path, "sequences")
    trained(tmp_path, "grpo")
    shutil.copy(student, tmp_path / "grpo" / STUDENT)
    found = route.pack_weights(tmp_path, tmp_path / "weights.safetensors", 1)
    assert found.parent.name == "grpo"
