"""`onbeat doctor`: is this machine ready, and what can it carry? Findings say how to mend them."""

import json
import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import msgspec
import typer

from onbeat.server.cli import cost_report
from onbeat.server.cli.options import with_settings
from onbeat.server.config import Settings, SettingsError, resolve_threads
from onbeat.server.launch import launch_of, prepare_data_dir

START_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    name: str
    status: Literal["ok", "warning", "failure"]
    detail: str
    mend: str = ""
    costs: dict[str, Any] | None = None


@with_settings
def doctor(
    settings: Settings,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
    recalibrate: Annotated[
        bool, typer.Option("--recalibrate", help="measure step times again, whatever is kept")
    ] = False,
) -> None:
    """Check Python, codecs, model, ports and disk, and show the model's step times."""
    findings = [finding for probe in _PROBES for finding in probe(settings)]
    findings += _model(settings, recalibrate)
    costs = next((f.costs for f in findings if f.costs is not None), None)
    if as_json:
        plain = [{n: v for n, v in asdict(f).items() if n != "costs"} for f in findings]
        print(json.dumps({"findings": plain, "calibration": costs}))
    else:
        for finding in findings:
            _show(finding)
    if any(f.status == "failure" for f in findings):
        raise typer.Exit(1)


def _show(finding: Finding) -> None:
    print(f"{finding.status:8} {finding.name:16} {finding.detail}")
    if finding.mend:
        print(f"{'':25} {finding.mend}")
    if finding.costs is not None:
        for line in cost_report.lines(finding.costs):
            print(f"{'':25} {line}")


def _machine(settings: Settings) -> Iterator[Finding]:
    import torch

    compute, decode = resolve_threads(settings)
    yield Finding(name="python", status="ok", detail=sys.version.split()[0])
    yield Finding(
        name="torch",
        status="ok",
        detail=f"{torch.__version__}, device {'cuda' if torch.cuda.is_available() else 'cpu'}",
    )
    yield Finding(
        name="cores",
        status="ok",
        detail=f"{os.cpu_count()} ({platform.machine()}); threads: compute {compute}, "
        f"decode {decode}",
    )


def _codecs(settings: Settings) -> Iterator[Finding]:
    import av

    for name in ("libvpx", "libx264", "libopus", "aac"):
        present = name in av.codecs_available
        yield Finding(
            name=f"codec {name}",
            status="ok" if present else "failure",
            detail="present" if present else "missing from PyAV's FFmpeg",
            mend="" if present else "install the av wheel from the package index",
        )


def _folder(settings: Settings) -> Iterator[Finding]:
    try:
        prepare_data_dir(settings)
    except SettingsError as error:
        yield Finding(
            name="data folder", status="failure", detail=str(error), mend="choose --data-dir"
        )
        return
    free = shutil.disk_usage(settings.data_dir).free / 2**30
    yield Finding(
        name="data folder",
        status="ok" if free > 1 else "warning",
        detail=f"{settings.data_dir}, {free:.1f} GiB free",
        mend="" if free > 1 else "free some space: videos are written here",
    )


def _port(settings: Settings) -> Iterator[Finding]:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            yield Finding(
                name="port",
                status="warning",
                detail=f"{settings.host}:{settings.port} is taken ({error.strerror})",
                mend="another server may be running; choose --port",
            )
            return
    yield Finding(name="port", status="ok", detail=f"{settings.host}:{settings.port} is free")


def _model(settings: Settings, recalibrate: bool) -> Iterator[Finding]:
    """Starts the real engine once and reads what it measured, or found and checked."""
    from onbeat.models.registry import load_model
    from onbeat.server.engine.build import calibration_cache, engine_settings
    from onbeat.server.engine.local import LocalEngine
    from onbeat.server.engine.messages import EngineReady

    launch = msgspec.structs.replace(launch_of(settings), recalibrate=recalibrate)
    try:
        model = load_model(settings.model, weights=settings.weights)
    except (OSError, ValueError) as error:
        yield Finding(name="model", status="failure", detail=str(error), mend="see `onbeat models`")
        return
    cache = calibration_cache(launch, model.spec)
    engine = LocalEngine(model, engine_settings(launch), cache=cache)
    engine.start()
    ready = engine.receive(START_SECONDS)
    engine.close()
    if not isinstance(ready, EngineReady):
        yield Finding(name="model", status="failure", detail=f"the engine did not start: {ready}")
        return
    detail = f"{settings.model}; about {ready.capacity_streams} live streams"
    detail += f" at {settings.headroom:.0%} of the lanes"
    yield Finding(name="model", status="ok", detail=detail)
    if ready.calibration is not None and cache is not None:
        costs = cost_report.cost_report(ready.calibration, cache.path)
        detail = cost_report.origin(costs)
        yield Finding(name="step times", status="ok", detail=detail, costs=costs)


_PROBES: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _machine,
    _codecs,
    _folder,
    _port,
)
