"""`onbeat doctor`: is this machine ready, and what can it carry? Findings say how to mend them."""

import json
import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer

from onbeat.server.cli.options import with_settings
from onbeat.server.config import Settings, SettingsError, resolve_threads
from onbeat.server.launch import prepare_data_dir

START_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    name: str
    status: Literal["ok", "warning", "failure"]
    detail: str
    mend: str = ""


@with_settings
def doctor(
    settings: Settings,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Check Python, codecs, model, ports and disk, and measure the model's step times."""
    findings = [finding for probe in _PROBES for finding in probe(settings)]
    if as_json:
        print(json.dumps({"findings": [asdict(f) for f in findings]}))
    else:
        for finding in findings:
            print(f"{finding.status:8} {finding.name:16} {finding.detail}")
            if finding.mend:
                print(f"{'':25} {finding.mend}")
    if any(f.status == "failure" for f in findings):
        raise typer.Exit(1)


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


def _model(settings: Settings) -> Iterator[Finding]:
    """Starts the real engine once and reads what it measured."""
    from onbeat.models.registry import load_model
    from onbeat.server.engine.local import LocalEngine
    from onbeat.server.engine.messages import EngineReady

    try:
        model = load_model(settings.model, weights=settings.weights)
    except (OSError, ValueError) as error:
        yield Finding(name="model", status="failure", detail=str(error), mend="see `onbeat models`")
        return
    engine = LocalEngine(model)
    engine.start()
    ready = engine.receive(START_SECONDS)
    engine.close()
    if not isinstance(ready, EngineReady):
        yield Finding(name="model", status="failure", detail=f"the engine did not start: {ready}")
        return
    steps = ", ".join(f"{rows}: {ms:.1f}" for rows, ms in ready.step_ms.items())
    yield Finding(
        name="model",
        status="ok",
        detail=f"{settings.model}; step ms by rows: {steps}; "
        f"batching stops paying at {knee(ready.step_ms)} rows; "
        f"about {ready.capacity_streams} live streams at {settings.headroom:.0%} of the lanes",
    )


def knee(step_ms: Mapping[int, float]) -> int:
    """Rows beyond which no larger batch gives 2 % more rows a second."""
    best, rate = 1, 0.0
    for rows, ms in sorted(step_ms.items()):
        if rows / ms > 1.02 * rate:
            best, rate = rows, rows / ms
    return best


_PROBES: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _machine,
    _codecs,
    _folder,
    _port,
    _model,
)
