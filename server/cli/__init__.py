"""The `onbeat` command: parses flags and calls the packages. Heavy imports happen per command."""

import sys
from typing import Annotated

import typer

import onbeat
from onbeat.server.cli import bench, doctor, generate, jobs, models, openapi, quality, serve, train
from onbeat.server.config import SettingsError

app = typer.Typer(
    name="onbeat",
    help="Endless video with sound from few-step models: live over WebRTC, or as files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("generate")(generate.generate)
app.command("train")(train.train)
app.command("models")(models.models)
app.command("doctor")(doctor.doctor)
app.command("openapi")(openapi.openapi)
app.command("quality")(quality.quality)
app.add_typer(bench.app, name="bench")
app.add_typer(jobs.app, name="jobs")


def _version(wanted: bool) -> None:
    if wanted:
        print(onbeat.__version__)
        raise typer.Exit


@app.callback()
def onbeat_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Endless video with sound from few-step models: live over WebRTC, or as files."""


def main() -> None:
    """Entry point: settings errors become one line each and exit code 2."""
    try:
        app()
    except SettingsError as error:
        for line in str(error).splitlines():
            print(f"onbeat: {line}", file=sys.stderr)
        sys.exit(2)
