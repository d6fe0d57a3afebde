"""Turns the fields of `Settings` into command-line flags, so that each is written down once."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from onbeat.server.config import Settings, load_settings

_FLAG_TYPES: dict[Any, Any] = {int: int, float: float, Path: Path, Path | None: Path}


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Gives `command(settings, **own)` one flag per setting, and --config for a TOML file.

    Flags win over the environment, which wins over the file, which wins over defaults.
    """
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "settings"]
    flags = [_flag(name) for name in Settings.model_fields]

    def run(config: Path | None = None, **values: Any) -> None:
        own_values = {p.name: values.pop(p.name) for p in own}
        command(load_settings(config_file=config, **values), **own_values)

    config_flag = inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[Path | None, typer.Option(help="TOML file of settings")],
    )
    keyword_own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    parameters = [*keyword_own, config_flag, *flags]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    return run


def _flag(name: str) -> inspect.Parameter:
    field = Settings.model_fields[name]
    kind = _FLAG_TYPES.get(field.annotation, str)
    default = field.get_default(call_default_factory=True)
    text = f"{field.description} [default: {default}]"
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, typer.Option(help=text, show_default=False)],
    )
