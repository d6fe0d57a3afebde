"""`onbeat quality`: figures and ship gates of the shipped model, by detector and frozen net."""

from pathlib import Path
from typing import Annotated

import typer


def quality(
    prompts: Annotated[int, typer.Option(min=1, max=10_000, help="prompts of taught things")] = 48,
    held_out: Annotated[int, typer.Option(min=1, max=2_000, help="of held-out triples")] = 24,
    teacher_prompts: Annotated[int, typer.Option(min=1, help="of `prompts`, at 20 steps")] = 16,
    streams: Annotated[int, typer.Option(min=2, max=512, help="long streams")] = 12,
    frames: Annotated[int, typer.Option(min=100, help="their length, whole hundreds")] = 1_000,
    changes: Annotated[int, typer.Option(min=1, max=512, help="prompt changes")] = 12,
    steps: Annotated[int, typer.Option(min=1, max=4, help="steps of each chunk")] = 2,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="of prompts, scenes, noise")] = 0,
    sheet: Annotated[Path | None, typer.Option(help="write a contact sheet PNG")] = None,
    weights: Annotated[Path | None, typer.Option(help="another weights file")] = None,
    teacher: Annotated[Path | None, typer.Option(help="weights of the 20-step teacher")] = None,
    before: Annotated[Path | None, typer.Option(help="weights before policy gradients")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print only the JSON line")] = False,
) -> None:
    """Measure what the model makes of its prompts, how it holds up, and its ship gates."""
    from onbeat.models.toybox.quality import Sizes
    from onbeat.samplers.distill.measure import Files, measure_quality

    sizes = Sizes(
        prompts=prompts,
        held_out=held_out,
        teacher=min(teacher_prompts, prompts),
        streams=streams,
        frames=frames,
        changes=changes,
        steps=steps,
    )
    files = Files(weights=weights, teacher=teacher, before=before)
    try:
        measure_quality(files, sizes, seed=seed, sheet=sheet, quiet=as_json)
    except (ValueError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error)) from error
