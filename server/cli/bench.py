"""`onbeat bench`: measures this machine; every benchmark prints one JSON line last."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from onbeat.server.cli import bench_serve

app = typer.Typer(help="Measure this machine.", no_args_is_help=True)
app.command("serve")(bench_serve.serve)


class PolicyChoice(StrEnum):
    EDF_S = "edf-s"
    EDF_GREEDY = "edf-greedy"
    ORCA = "orca"
    COALESCED = "coalesced"
    STATIC = "static"
    TIME_SLICE = "time-slice"
    FCFS_CHUNK = "fcfs-chunk"
    PROCESS_PER_STREAM = "process-per-stream"


@app.callback()
def bench() -> None:
    """Measure this machine."""


@app.command("streams")
def streams(
    count: Annotated[int, typer.Option("--streams", min=1, max=1000, help="streams offered")] = 6,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="measured time")] = 30.0,
    policy: Annotated[PolicyChoice, typer.Option(help="scheduling policy")] = PolicyChoice.EDF_S,
    admission: Annotated[bool, typer.Option(help="refuse streams beyond capacity")] = True,
    model: Annotated[str, typer.Option(help="registered model")] = "toybox",
    trace: Annotated[
        Path | None, typer.Option(help="write the last 10 s as a trace file for ui.perfetto.dev")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print only the JSON line")] = False,
) -> None:
    """Run live streams on the real engine without a network and count frames on time."""
    if trace is not None and not trace.absolute().parent.is_dir():
        raise typer.BadParameter(f"trace: the folder {trace.absolute().parent} does not exist")
    from onbeat.models.registry import load_model
    from onbeat.server.engine.bench import run_streams

    result = run_streams(
        load_model(model),
        streams=count,
        seconds=seconds,
        policy=policy.value,
        admission=admission,
        trace=trace,
    )
    if not as_json:
        for name, value in result.items():
            print(f"{name:24} {value}")
    print(json.dumps(result))
