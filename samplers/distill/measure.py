"""`onbeat quality`: the figures of toybox as it is served, from its weights file.

What it is: the offline generator joined to the measurements of models/toybox/quality.py, a progress
bar, and the report printed. What it is not: a gate, or a measurement of speed.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress, TextColumn
from torch import Tensor

from onbeat.models.toybox.model import Toybox
from onbeat.models.toybox.quality import Report, Sizes, Subject, counted, run_quality
from onbeat.models.toybox.quality_frechet import Features
from onbeat.models.toybox.quality_scenes import Generate, PromptOf
from onbeat.models.toybox.weights import (
    PACKAGED,
    load_attributes,
    load_toybox,
    load_video_codec,
    metadata_of,
)
from onbeat.samplers.distill.generate import chunks_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Weights files: what is measured (None: the packaged ones), the 20-step teacher (None: the
    same weights at 20 steps) and the model before policy gradients (None: not compared)."""

    weights: Path | None = None
    teacher: Path | None = None
    before: Path | None = None


def generator(model: Toybox) -> Generate:
    """The offline loop over a model as quality.py calls it."""

    def generate(
        prompts: PromptOf, seeds: Sequence[int], chunks: int, steps: int, *, euler: bool = False
    ) -> Iterator[tuple[Tensor, Tensor]]:
        return chunks_of(model, prompts, seeds, chunks, steps, 0.0 if euler else 1.0)

    return generate


def facts(path: Path) -> dict[str, object]:
    """What a report says of a weights file: name, size, checksum and metadata."""
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return {"file": path.name, "bytes": len(data), "sha256": digest, **metadata_of(path)}


def measure_quality(
    files: Files, sizes: Sizes, *, seed: int, sheet: Path | None, quiet: bool
) -> Report:
    """Runs all measurements on one thread and prints them (when quiet only the JSON line)."""
    torch.set_num_threads(1)
    columns = (*Progress.get_default_columns(), TextColumn("chunks"))
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("measuring", total=sizes.total(files.before is not None))
        subject = subject_of(files, lambda rows: bar.advance(task, rows))
        path = files.weights or PACKAGED
        model = facts(path) | {"teacher": str(files.teacher.name if files.teacher else "itself")}
        report = run_quality(subject, sizes, seed=seed, model=model, sheet=sheet)
    if not quiet:
        print(report.to_text())
    print(report.to_json())
    return report


def subject_of(files: Files, advance: Callable[[int], None]) -> Subject:
    """Loads the models. Raises FileNotFoundError or ValueError for a file that is none."""
    codec = load_video_codec(files.weights)

    def loaded(path: Path | None) -> Generate:
        return counted(generator(load_toybox(weights=path)), advance)

    own = loaded(files.weights)
    return Subject(
        generate=own,
        teacher=loaded(files.teacher) if files.teacher else own,
        codec=codec,
        features=Features(codec, load_attributes()),
        before=loaded(files.before) if files.before else None,
    )
