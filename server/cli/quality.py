"""`onbeat quality`: figures of the shipped model, by a rule-based detector."""

from pathlib import Path
from typing import Annotated

import typer


def quality(
    prompts: Annotated[int, typer.Option(min=1, max=10_000, help="one-object prompts")] = 100,
    steps: Annotated[int, typer.Option(min=1, max=4, help="steps of each chunk")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="seed of prompts and scenes")] = 0,
    sheet: Annotated[Path | None, typer.Option(help="write a contact sheet PNG")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print only the JSON line")] = False,
) -> None:
    """Measure what the model makes of its prompts, and how it holds up over 600 frames."""
    from onbeat.samplers.distill.measure import measure_quality

    measure_quality(prompts=prompts, steps=steps, seed=seed, sheet=sheet, quiet=as_json)
