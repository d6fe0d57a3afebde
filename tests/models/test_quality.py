"""The quality report: a generator that shows the truth passes its gates, a grey one fails them."""

import json
from pathlib import Path

import pytest
import torch

from onbeat.models.toybox.quality import Sizes, Subject, counted, run_quality
from onbeat.models.toybox.quality_events import SOUNDING
from onbeat.models.toybox.quality_frechet import Features
from onbeat.models.toybox.quality_gates import GATES, LEAST, gate_lines, verdicts
from onbeat.models.toybox.quality_scenes import Said, said_scenes
from onbeat.models.toybox.weights import load_attributes, load_video_codec
from tests.models.quality_oracle import Oracle, grey

SIZES = Sizes(
    prompts=4,
    held_out=3,
    teacher=3,
    streams=3,
    frames=100,
    changes=2,
    ladder=(1, 2),
    true_clips=2,
    codec_clips=2,
)


def asked(seed: int) -> list[Said]:
    """Every scene that `run_quality` takes a prompt from."""
    return [
        *said_scenes(seed + 21, SIZES.prompts, held_out=False),
        *said_scenes(seed + 22, SIZES.held_out, held_out=True),
        *said_scenes(seed + 31, SIZES.streams, held_out=False, motions=SOUNDING),
        *said_scenes(seed + 33, 2 * SIZES.changes, held_out=False),
    ]


@pytest.fixture(scope="module")
def features() -> Features:
    return Features(load_video_codec(), load_attributes())


@pytest.mark.timeout(600)
def test_the_truth_passes_and_grey_fails(features: Features, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    codec, seen = load_video_codec(), [0]

    def advance(rows: int) -> None:
        seen[0] += rows

    oracle = Oracle(asked(5))
    subject = Subject(
        generate=counted(oracle, advance),
        teacher=counted(oracle, advance),
        codec=codec,
        features=features,
        before=counted(Oracle(asked(5), spoil=grey), advance),
    )
    good = run_quality(subject, SIZES, seed=5, sheet=tmp_path / "sheet.png")
    assert seen[0] == SIZES.total(compared=True)
    assert (tmp_path / "sheet.png").stat().st_size > 10_000
    names = ("all_right", "held_out_all_right", "true_all_right", "survival_100", "grpo_gain")
    assert {n: good.figures[n] for n in names} == dict.fromkeys(names, 1.0)
    assert good.figures["frechet_2"] < 0.05 * good.figures["before_held_out_frechet"]
    assert good.figures["before_all_right"] == 0.0
    assert good.figures["event_f1"] > good.figures["event_f1_shifted"] + 0.3
    report = json.loads(good.to_json())
    judged = verdicts(good.figures, dict.fromkeys(LEAST, 1000))
    passed = {g["figure"] for g in judged if g["passed"]}
    assert {"psnr", "all_right", "event_f1", "steering_s", "grpo_gain"} <= passed
    assert report["schema"] == "onbeat-quality-1" and report["survival"] == [1.0]
    assert report["sizes"]["frames"] == 100 and report["seed"] == 5


def test_lengths_are_whole_hundreds(features: Features) -> None:
    subject = Subject(
        generate=Oracle([]), teacher=Oracle([]), codec=load_video_codec(), features=features
    )
    with pytest.raises(ValueError, match="frames is 150; allowed: multiples of 100"):
        run_quality(subject, Sizes(frames=150))


def test_gates_judge_by_their_sense_and_by_size() -> None:
    figures = {"psnr": 30.0, "event_offset_ms": -26.0, "steering_s": 1.0, "drift_ratio_1000": 1.31}
    passed = {g["figure"]: g["passed"] for g in verdicts(figures, dict.fromkeys(LEAST, 1000))}
    assert passed["psnr"] is True and passed["steering_s"] is True
    assert passed["event_offset_ms"] is False and passed["drift_ratio_1000"] is False
    assert passed["all_right"] is None and len(passed) == len(GATES)
    assert any("not measured" in line for line in gate_lines(figures, LEAST))


def test_nothing_is_judged_by_one_prompt() -> None:
    figures = {"all_right": 1.0, "held_out_all_right": 1.0}
    counts = LEAST | {"prompts": 1}
    passed = {g["figure"]: g["passed"] for g in verdicts(figures, counts)}
    assert passed["all_right"] is None and passed["held_out_all_right"] is True
    assert any("too few prompts to judge" in line for line in gate_lines(figures, counts))
