"""`onbeat models`: what can be served."""

import json
from typing import Annotated

import typer


def models(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """List the registered models."""
    from onbeat.models.registry import model_names

    names = model_names()
    if as_json:
        print(json.dumps({"models": names}))
        return
    for name in names:
        print(name)
