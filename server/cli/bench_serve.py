"""`onbeat bench serve`: viewers and jobs on a running server, and what came of it."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer


def serve(
    url: Annotated[str, typer.Option(help="the server")] = "http://127.0.0.1:8000",
    rate: Annotated[float, typer.Option(min=0.001, help="sessions that come, a second")] = 0.5,
    burstiness: Annotated[
        float, typer.Option(min=0.01, help="shape of the gamma distribution of gaps; 1: Poisson")
    ] = 1.0,
    arrivals: Annotated[
        Path | None, typer.Option(help="CSV of start,seconds,class instead of random arrivals")
    ] = None,
    lifetime: Annotated[float, typer.Option(min=1, help="mean seconds that one watches")] = 20.0,
    sigma: Annotated[float, typer.Option(min=0, help="of lognormal lifetimes; 0: all alike")] = 0.0,
    seconds: Annotated[float, typer.Option(min=1, max=86400, help="measured time")] = 30.0,
    warm: Annotated[float, typer.Option(min=0, help="seconds before that")] = 5.0,
    jobs: Annotated[float, typer.Option(min=0, help="jobs that come, a second")] = 0.0,
    job_seconds: Annotated[float, typer.Option(min=0.1, help="length of a job's video")] = 2.0,
    interference: Annotated[
        bool, typer.Option("--interference", help="the same sessions without jobs first, then with")
    ] = False,
    steps: Annotated[int | None, typer.Option(min=1, help="denoise steps; absent: usual")] = None,
    audio: Annotated[bool, typer.Option(help="sessions with sound")] = True,
    seed: Annotated[int, typer.Option(help="of arrivals and lifetimes")] = 0,
    api_key: Annotated[
        str | None, typer.Option(envvar="ONBEAT_API_KEY", help="key that the server wants")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML file with plots to write")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print only the JSON line")] = False,
) -> None:
    """Put live viewers and jobs on a running server and measure what they get."""
    if report is not None and not report.absolute().parent.is_dir():
        raise typer.BadParameter(f"report: the folder {report.absolute().parent} does not exist")
    if interference and not jobs:
        raise typer.BadParameter("interference: it compares with and without jobs; give --jobs")
    from onbeat.server.load.figures import figures
    from onbeat.server.load.http import RefusedError, Server
    from onbeat.server.load.report import html, shown
    from onbeat.server.load.run import Load, run
    from onbeat.server.wording import shown as named

    load = Load(
        rate=rate,
        burstiness=burstiness,
        trace=arrivals,
        lifetime=lifetime,
        sigma=sigma,
        seconds=seconds,
        warm=warm,
        jobs=jobs,
        job_seconds=job_seconds,
        audio=audio,
        steps=steps,
        seed=seed,
    )
    try:
        target = Server(url, api_key)
        alone = asyncio.run(run(target, replace(load, jobs=0.0))) if interference else None
        outcome = asyncio.run(run(target, load))
    except (RefusedError, OSError, ValueError) as error:
        raise typer.BadParameter(f"url: {named(url)} cannot be measured: {error}") from error
    found = figures(outcome, alone)
    if report is not None:
        report.write_text(html(outcome, found, alone))
    if not as_json:
        for name, value in found.items():
            print(f"{name:28} {shown(value)}")
    print(json.dumps(found))
