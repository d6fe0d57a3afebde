"""The `onbeat` command: parses flags and calls the packages. Heavy imports happen per command."""

import sys

import typer

from onbeat.server.cli import bench, doctor, generate, models, quality, serve, train
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
app.command("quality")(quality.quality)
app.add_typer(bench.app, name="bench")


@app.command("version")
def version() -> None:
    """Print the version."""
    from onbeat import __version__

    print(__version__)


def main() -> None:
    """Entry point: settings errors become one line each and exit code 2."""
    try:
        app()
    except SettingsError as error:
        for line in str(error).splitlines():
            print(f"onbeat: {line}", file=sys.stderr)
        sys.exit(2)
