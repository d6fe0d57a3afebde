"""How good the toybox model is, in figures: the report behind `onbeat quality`.

What it is: all measurements of a generator by the rule-based detector and a frozen attribute net,
set against true renders under the same instruments, and the ship gates. What it is not: training, a
measure of speed, or a way to load models.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from onbeat.models.toybox.concepts import CHUNK_FRAMES
from onbeat.models.toybox.quality_codec import measure_codec
from onbeat.models.toybox.quality_events import SOUNDING, Figures, true_sync
from onbeat.models.toybox.quality_frechet import Features, Rows, frechet
from onbeat.models.toybox.quality_gates import finite, gate_lines, verdicts
from onbeat.models.toybox.quality_long import SPAN_CHUNKS, measure_long
from onbeat.models.toybox.quality_prompts import CHUNKS, Shown, shares, show
from onbeat.models.toybox.quality_scenes import Generate, PromptOf, Said, said_scenes, true_frames
from onbeat.models.toybox.quality_sheet import Tile, write_sheet
from onbeat.models.toybox.quality_steering import AFTER, BEFORE, measure_steering
from onbeat.models.toybox.video_codec import VideoCodec

SCHEMA = "onbeat-quality-1"
TEACHER_STEPS = 20
GATE_FRAMES = 1_000
SPAN_FRAMES = SPAN_CHUNKS * CHUNK_FRAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured. `frames` is the length of the long streams, a multiple of 100."""

    prompts: int = 48
    held_out: int = 24
    teacher: int = 16
    streams: int = 12
    frames: int = GATE_FRAMES
    changes: int = 12
    ladder: tuple[int, ...] = (1, 2, 4)
    steps: int = 2
    """Steps of a chunk at which all but the ladder is measured."""
    true_clips: int = 6
    codec_clips: int = 16

    def total(self, compared: bool) -> int:
        """Chunks that will be generated, for a progress bar."""
        ladder = len({*self.ladder, self.steps})
        short = (self.prompts + self.held_out) * ladder + self.teacher
        short += (self.prompts + self.held_out) * compared
        long = self.streams * self.frames // CHUNK_FRAMES
        return short * CHUNKS + long + self.changes * (BEFORE + AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is measured. `teacher` makes the 20-step clips; `before` is the same model before policy
    gradients, if there is one to compare."""

    generate: Generate
    teacher: Generate
    codec: VideoCodec
    features: Features
    before: Generate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures, the gates on them, and the share of streams alive after every 100 frames."""

    figures: Figures
    survival: list[float]
    sizes: Sizes
    seed: int
    model: Mapping[str, object]

    def to_json(self) -> str:
        """One line; the schema is in docs/toybox.md."""
        gates = verdicts(self.figures, asdict(self.sizes))
        return json.dumps(
            {
                "schema": SCHEMA,
                "model": dict(self.model),
                "seed": self.seed,
                "sizes": asdict(self.sizes),
                "gates": gates,
                "passed": sum(g["passed"] is True for g in gates),
                "failed": sum(g["passed"] is False for g in gates),
                "figures": {name: finite(value) for name, value in self.figures.items()},
                "survival": [round(share, 4) for share in self.survival],
            }
        )

    def to_text(self) -> str:
        """Figures, then gates, for people."""
        lines = [f"{name:<32}{value:>9.3f}" for name, value in self.figures.items()]
        return "\n".join([*lines, "", *gate_lines(self.figures, asdict(self.sizes))])


def counted(generate: Generate, advance: Callable[[int], None]) -> Generate:
    """The same generator, which tells of each chunk of each row."""

    def told(
        prompts: PromptOf, seeds: Sequence[int], chunks: int, steps: int, *, euler: bool = False
    ) -> Iterator[tuple[Tensor, Tensor]]:
        for chunk in generate(prompts, seeds, chunks, steps, euler=euler):
            advance(len(seeds))
            yield chunk

    return told


@torch.inference_mode()
def run_quality(
    subject: Subject,
    sizes: Sizes,
    *,
    seed: int = 0,
    model: Mapping[str, object] | None = None,
    sheet: Path | None = None,
) -> Report:
    """Measures everything; writes a contact sheet (PNG) of the prompts if asked.

    Scenes and noise follow from `seed` alone. Raises ValueError for frames that are no multiple of
    100 or fewer than 100.
    """
    if sizes.frames < SPAN_FRAMES or sizes.frames % SPAN_FRAMES:
        raise ValueError(f"frames is {sizes.frames}; allowed: multiples of {SPAN_FRAMES}")
    figures: Figures = measure_codec(subject.codec, sizes.codec_clips)
    figures |= _prompts(subject, sizes, seed, sheet)
    streams = said_scenes(seed + 31, sizes.streams, held_out=False, motions=SOUNDING)
    marks = sorted({min(sizes.frames, GATE_FRAMES), sizes.frames})
    long = measure_long(
        subject.generate,
        subject.features,
        streams,
        chunks=sizes.frames // CHUNK_FRAMES,
        seed=seed,
        steps=sizes.steps,
        marks=marks,
    )
    figures |= long.figures | true_sync(seed + 32, sizes.true_clips, SPAN_CHUNKS * 2)
    turns = said_scenes(seed + 33, 2 * sizes.changes, held_out=False)
    figures |= measure_steering(subject.generate, turns, seed, sizes.steps)
    return Report(
        figures=figures, survival=long.survival, sizes=sizes, seed=seed, model=model or {}
    )


def _prompts(subject: Subject, sizes: Sizes, seed: int, sheet: Path | None) -> Figures:
    """Prompt control and Frechet distances by steps, at the teacher's, and before GRPO."""
    taught = said_scenes(seed + 21, sizes.prompts, held_out=False)
    unseen = said_scenes(seed + 22, sizes.held_out, held_out=True)
    truth, unseen_truth = true_frames(taught, CHUNKS), true_frames(unseen, CHUNKS)
    real, unseen_real = subject.features.windows(truth), subject.features.windows(unseen_truth)
    again = subject.features.windows(true_frames(taught, CHUNKS, first=CHUNKS))
    figures = shares(Shown(said=taught, frames=truth).marks, "true_")
    figures |= subject.features.error(truth[:, 0], [s.prompt for s in taught])
    figures["frechet_true"] = frechet(again, real)
    for steps in dict.fromkeys((sizes.steps, *sizes.ladder)):
        end = "" if steps == sizes.steps else f"_{steps}_steps"
        shown = show(subject.generate, taught, seed, steps)
        held = show(subject.generate, unseen, seed, steps)
        for prefix, clips in (("", shown), ("held_out_", held)):
            marks = clips.marks if steps == sizes.steps else clips.pictured
            figures |= {k + end: v for k, v in shares(marks, prefix).items()}
        rows = subject.features.windows(shown.frames)
        figures[f"frechet_{steps}"] = frechet(rows, real)
        figures[f"held_out_frechet_{steps}"] = _distance(subject, held, unseen_real)
        if steps == sizes.steps:
            figures |= _teacher(subject, taught[: sizes.teacher], seed, rows, real)
            figures |= _grpo(subject, sizes, seed, figures, (taught, unseen), unseen_real)
            if sheet is not None:
                write_sheet(_tiles(shown), sheet)
    return figures


def _distance(subject: Subject, shown: Shown, real: Rows) -> float:
    return frechet(subject.features.windows(shown.frames), real)


def _teacher(subject: Subject, said: Sequence[Said], seed: int, rows: Rows, real: Rows) -> Figures:
    """The teacher's distance on its prompts, and that of `rows` on the same ones over it."""
    shown = show(subject.teacher, said, seed, TEACHER_STEPS, euler=True)
    cut = len(said) * CHUNKS
    teacher = _distance(subject, shown, real[:cut])
    return {
        "frechet_teacher": teacher,
        "frechet_2_over_teacher": frechet(rows[:cut], real[:cut]) / teacher,
    }


def _grpo(
    subject: Subject,
    sizes: Sizes,
    seed: int,
    after: Figures,
    said: tuple[Sequence[Said], Sequence[Said]],
    unseen_real: Rows,
) -> Figures:
    """What policy gradients changed, if the model before them is given."""
    if subject.before is None:
        return {}
    taught = shares(show(subject.before, said[0], seed, sizes.steps).marks, "")
    held = show(subject.before, said[1], seed, sizes.steps)
    distance = _distance(subject, held, unseen_real)
    return {
        "before_all_right": taught["all_right"],
        "before_held_out_frechet": distance,
        "grpo_gain": after["all_right"] - taught["all_right"],
        "grpo_frechet_ratio": after[f"held_out_frechet_{sizes.steps}"] / distance,
    }


def _tiles(shown: Shown) -> list[Tile]:
    rows = zip(shown.frames, shown.said, shown.good, strict=True)
    return [Tile(frame=clip[-1], caption=s.prompt, good=good) for clip, s, good in rows]
