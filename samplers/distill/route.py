"""The training route of toybox, stage by stage, as `onbeat train toybox` calls it.

What it is: which stage reads and writes which folder under `out`, and the packing of the weights
file. What it is not: the stages. Route: ae, audio,
attributes, cover, teacher, consistency, average, grpo, pack.
"""

import filecmp
import json
import subprocess
from pathlib import Path

from safetensors.torch import load_file

from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.models.toybox.weights import PACKAGED, save_weights
from onbeat.samplers.distill.ae_training import train_video_codec
from onbeat.samplers.distill.attribute_loss import AttributeLoss
from onbeat.samplers.distill.attribute_training import load_attributes, train_attributes
from onbeat.samplers.distill.audio_training import train_audio_codec
from onbeat.samplers.distill.averaging import average_of, average_stages
from onbeat.samplers.distill.consistency import Recipe
from onbeat.samplers.distill.cover import load_cover, train_cover
from onbeat.samplers.distill.grpo import STUDENT, train_policy
from onbeat.samplers.distill.losses import Extra
from onbeat.samplers.distill.motion_loss import MotionLoss, beside
from onbeat.samplers.distill.rewards import Judge
from onbeat.samplers.distill.student import train_student
from onbeat.samplers.distill.teacher import Codecs, start, train_pictures, train_sequences

STAGES = (
    "ae",
    "audio",
    "attributes",
    "cover",
    "teacher",
    "consistency",
    "average",
    "grpo",
    "pack",
)
STEPPED = ("teacher", "consistency", "grpo")
"""Stages that can run for a number of steps instead of minutes."""
PICTURE_SHARE = 0.5
"""Of the teacher's minutes, for single chunks."""
RECIPE = Recipe(own_history=0.5)


def run_stage(
    stage: str,
    *,
    minutes: float,
    out: Path,
    seed: int = 0,
    resume: bool = True,
    steps: int | None = None,
) -> None:
    """Runs one stage for `minutes` (in all, when it resumes) under the folder `out`, or, if they
    are given, for `steps` in all on one thread: the same bits from the same seed.

    Raises ValueError for an unknown stage or for steps of a stage that has none, and
    FileNotFoundError if an earlier one is missing.
    """
    if stage not in STAGES:
        raise ValueError(f"stage is {stage!r}; allowed: {', '.join(STAGES)}")
    if steps is not None and stage not in STEPPED:
        raise ValueError(f"steps is {steps} at stage {stage!r}; allowed: {', '.join(STEPPED)}")
    if stage == "ae":
        train_video_codec(minutes, out / "ae", seed, resume)
    elif stage == "audio":
        train_audio_codec(minutes, out / "audio", seed, resume)
    elif stage == "attributes":
        train_attributes(load_codecs(out), out / "attributes", seed)
    elif stage == "cover":
        train_cover(load_codecs(out), out / "cover", seed)
    elif stage == "teacher":
        _teacher(minutes, out, seed, resume, steps)
    elif stage == "consistency":
        _student(minutes, out, seed, resume, steps)
    elif stage == "average":
        _needed(out / "sequences" / "state.pt", "teacher")
        _needed(out / "consistency" / "state.pt", "consistency")
        average_stages(out)
    elif stage == "grpo":
        _policy(minutes, out, seed, resume, steps)
    else:
        pack_weights(out, PACKAGED, seed)


def _teacher(minutes: float, out: Path, seed: int, resume: bool, steps: int | None) -> None:
    codecs, extra = load_codecs(out), extra_loss(out)
    first = minutes * PICTURE_SHARE
    pictures = None if steps is None else max(1, round(steps * PICTURE_SHARE))
    train_pictures(
        codecs, first, out / "pictures", seed, resume=resume, extra=extra, steps=pictures
    )
    train_sequences(
        codecs,
        minutes - first,
        out / "sequences",
        seed,
        resume=resume,
        after=_needed(out / "pictures" / "state.pt", "teacher"),
        extra=extra,
        steps=None if steps is None or pictures is None else max(1, steps - pictures),
    )


def _student(minutes: float, out: Path, seed: int, resume: bool, steps: int | None) -> None:
    teacher = _needed(out / "sequences" / "state.pt", "teacher")
    train_student(
        load_codecs(out),
        minutes,
        out / "consistency",
        seed,
        resume=resume,
        teacher=teacher,
        recipe=RECIPE,
        extra=extra_loss(out),
        steps=steps,
    )


def _policy(minutes: float, out: Path, seed: int, resume: bool, steps: int | None) -> None:
    cover = load_cover(_needed(out / "cover" / "model.safetensors", "cover"))
    judge = Judge(attributes=attribute_loss(out).net, cover=cover)
    student = student_of(out) or _needed(out / "sequences" / "state.pt", "teacher")
    train_policy(
        load_codecs(out),
        judge,
        minutes,
        out / "grpo",
        seed,
        resume=resume,
        student=student,
        steps=steps,
    )


def student_of(out: Path) -> Path | None:
    """The checkpoint that policy gradients begin with: the average, else that of the few-step
    stage, or of the sequences where that stage was left out, which serves in few steps as it is;
    None if there is none."""
    found = [out / name / "state.pt" for name in ("consistency", "sequences")]
    return average_of(out) or next((path for path in found if path.exists()), None)


def load_codecs(out: Path) -> Codecs:
    """The trained codecs of a run."""
    video = VideoCodec()
    video.load_state_dict(load_file(_needed(out / "ae" / "model.safetensors", "ae")))
    audio = AudioCodec.load(_needed(out / "audio" / "model.safetensors", "audio"))
    return video.eval().requires_grad_(False), audio


def attribute_loss(out: Path) -> AttributeLoss:
    """The loss with the frozen attribute net of a run."""
    return AttributeLoss(
        net=load_attributes(_needed(out / "attributes" / "model.safetensors", "attributes"))
    )


def extra_loss(out: Path) -> Extra:
    """What stands beside the velocity loss: what pictures show, and where it is."""
    net = load_cover(_needed(out / "cover" / "model.safetensors", "cover"))
    return beside(attribute_loss(out), MotionLoss(net=net))


def pack_weights(out: Path, target: Path, seed: int) -> Path:
    """Writes the weights file from the latest stage that there is; returns its checkpoint. Policy
    gradients count as long as the student that they began with has not been trained on."""
    begun, student = out / "grpo" / STUDENT, student_of(out)
    same = student and begun.exists() and filecmp.cmp(begun, student, shallow=False)
    latest = [out / "grpo" / "state.pt"] if same else []
    latest += [path for path in (student, out / "pictures" / "state.pt") if path is not None]
    found = [path for path in latest if path.exists()]
    if not found:
        raise FileNotFoundError(f"{out} has no trained denoiser; run the stage: teacher")
    run = start(found[0].parent, seed, True)
    video, audio = load_codecs(out)
    parts = {
        "denoiser": run.ema.denoiser,
        "text": run.ema.text,
        "video": video,
        "audio": audio,
    }
    facts = {
        "config": run.ema.config.to_json(),
        "data_seed": str(seed),
        "commit": _commit(),
        "stage": json.dumps({"name": found[0].parent.name, "step": run.step}),
    }
    save_weights(parts, target, facts)
    return found[0]


def _needed(path: Path, stage: str) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; run the stage: {stage}")
    return path


def _commit() -> str:
    """The commit of the training code, "unknown" outside a repository."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return found.stdout.strip() or "unknown"
