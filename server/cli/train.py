"""`onbeat train MODEL --stage S`: the training route of a model, stage by stage, resumable."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Stage(StrEnum):
    AE = "ae"
    AUDIO = "audio"
    ATTRIBUTES = "attributes"
    COVER = "cover"
    TEACHER = "teacher"
    CONSISTENCY = "consistency"
    AVERAGE = "average"
    GRPO = "grpo"
    PACK = "pack"


def train(
    model: Annotated[str, typer.Argument(help="model to train: toybox")],
    stage: Annotated[Stage, typer.Option(help="stage of the route; pack writes the weights file")],
    minutes: Annotated[float, typer.Option(min=0.05, help="wall-clock budget of this run")] = 30.0,
    out: Annotated[Path, typer.Option(help="folder of the runs")] = Path("runs/toybox"),
    seed: Annotated[int, typer.Option(min=0, help="seed of data and weights")] = 0,
    resume: Annotated[bool, typer.Option(help="go on from the last checkpoint")] = True,
    steps: Annotated[
        int | None,
        typer.Option(min=2, help="so many steps in all instead of minutes, exact by seed"),
    ] = None,
) -> None:
    """Train one stage of a model; each checkpoint comes with samples to look at and listen to."""
    if model != "toybox":
        raise typer.BadParameter(f"model: {model!r} has no training route; allowed: toybox")
    from onbeat.samplers.distill.route import run_stage

    try:
        run_stage(stage.value, minutes=minutes, out=out, seed=seed, resume=resume, steps=steps)
    except (ValueError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error)) from error
