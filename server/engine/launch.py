"""How an engine process is told what to be, and how it is started: one JSON argument, three pipes.

What it is not: the supervision of a running engine (process.py) or the engine itself (worker.py).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from onbeat.server.engine.calibration import Calibration
from onbeat.server.engine.ring import anonymous_file
from onbeat.server.logs import LogFormat

INPUT_SLOTS = 64
"""Pictures on their way to an engine at once; it takes each within milliseconds."""
CANNOT_START = 3
"""Exit code of a worker that would fail again: unknown model, no weights, wrong settings."""


REASON_FILE = "reason"
"""In the folder of its sockets: why such a worker ended."""
FOLDER_PREFIX = "onbeat-"


class EngineLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine process needs to know. Threads: torch threads of the two lanes."""

    model: str = "toybox"
    weights: str | None = None
    policy: str = "edf-s"
    compute_threads: int = 1
    decode_threads: int = 1
    headroom: float = 0.75
    max_rows: int = 24
    max_streams: int = 66
    max_active: int = 0
    plan_ahead: str = "auto"
    split_rows: int = 0
    pages: int = 0
    host_memory: int = 1 << 30
    offload_after_seconds: float = 2.0
    ring_slots: int = 64
    known: Calibration | None = None
    """What an earlier engine process measured."""
    calibration_folder: str | None = None
    """Where calibrations are kept from one start to the next; None: nowhere."""
    recalibrate: bool = False
    log_level: str = "warning"
    log_format: LogFormat = "text"


class WorkerArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The one argument of the worker's command line, as JSON."""

    launch: EngineLaunch
    commands: str
    events: str
    reason: str
    """File for why it could not start."""
    ring_descriptor: int
    input_descriptor: int
    """Of the ring whose slots the front writes."""
    parent_descriptor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A started engine process and what is ours of it. `alive_descriptor`: closing it ends it."""

    process: subprocess.Popen[bytes]
    ring_descriptor: int
    input_descriptor: int
    alive_descriptor: int
    folder: Path


def ended_why(child: Child, code: int) -> str:
    """Why an engine process ended: in its own words if it could not start and said so."""
    file = child.folder / REASON_FILE
    if code == CANNOT_START and file.is_file():
        return file.read_text()
    return f"the engine process ended with code {code}"


def make_folder() -> Path:
    """A private folder for the two local sockets; short, as socket paths are limited. Folders of
    servers that were killed are removed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        owner = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))


def start_child(launch: EngineLaunch, folder: Path) -> Child:
    """Starts a worker that talks over `folder` and ends when our end of its pipe closes."""
    ring_descriptor = anonymous_file("onbeat-ring")
    input_descriptor = anonymous_file("onbeat-input")
    parent_descriptor, alive_descriptor = os.pipe()
    arguments = WorkerArguments(
        launch=launch,
        commands=f"ipc://{folder}/commands",
        events=f"ipc://{folder}/events",
        reason=str(folder / REASON_FILE),
        ring_descriptor=ring_descriptor,
        input_descriptor=input_descriptor,
        parent_descriptor=parent_descriptor,
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "onbeat.server.engine.worker",
            msgspec.json.encode(arguments).decode(),
        ],
        pass_fds=(ring_descriptor, input_descriptor, parent_descriptor),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | _worker_environment(launch),
    )
    os.close(parent_descriptor)
    return Child(
        process=process,
        ring_descriptor=ring_descriptor,
        input_descriptor=input_descriptor,
        alive_descriptor=alive_descriptor,
        folder=folder,
    )


def end_child(child: Child, *, grace: float) -> None:
    """Ends the process, first by closing its pipe, after `grace` seconds by force; frees all."""
    os.close(child.alive_descriptor)
    try:
        child.process.wait(timeout=grace)
    except subprocess.TimeoutExpired:
        child.process.kill()
        child.process.wait()
    os.close(child.ring_descriptor)
    os.close(child.input_descriptor)


def _worker_environment(launch: EngineLaunch) -> dict[str, str]:
    """Thread pools are sized before torch loads, so that lanes do not fight for cores."""
    return {"OMP_NUM_THREADS": str(launch.compute_threads), "KMP_BLOCKTIME": "0"}
