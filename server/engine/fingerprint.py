"""What a measured step time depends on: device, program, model, weights, settings. Texts only.

Two engines with the same fingerprint may believe each other's cost tables; a check at start still
looks whether they do (calibrate.py). What it is not: a checksum of anything for safety.
"""

import hashlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import torch

import onbeat
from onbeat import kernels, models, samplers
from onbeat.models.spec import ModelSpec
from onbeat.server.engine.settings import EngineSettings

HEAD_BYTES = 1 << 20
"""Of a weights file: names, shapes and types lie at its front, and weights of equal shape cost the
same."""
_RUN_BY = ("decode.py", "executor.py", "kv_store.py")
_COUNTED = ("max_rows", "max_decode_rows", "compute_threads", "decode_threads", "decode_lane")


def calibration_key(
    spec: ModelSpec, settings: EngineSettings, weights: Path | None
) -> dict[str, str]:
    """Everything that the cost tables of this engine depend on."""
    return {
        "device": _device(),
        "program": f"onbeat {onbeat.__version__}, torch {torch.__version__}, code {_code()}",
        "model": repr(spec),
        "weights": "packaged" if weights is None else _head(weights),
        **{name: str(getattr(settings, name)) for name in _COUNTED},
    }


def _device() -> str:
    """The processor and how many cores of it this process may use; a GPU by its name."""
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} cores"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _code() -> str:
    """Of the source that a forward and a decode run through, and of packaged weights."""
    digest = hashlib.sha256()
    for path in _files():
        digest.update(path.name.encode())
        digest.update(path.read_bytes() if path.suffix == ".py" else _head(path).encode())
    return digest.hexdigest()[:16]


def _files() -> Iterator[Path]:
    for folder in (*kernels.__path__, *models.__path__):
        found = Path(folder).rglob("*")
        yield from sorted(p for p in found if p.suffix in (".py", ".safetensors"))
    for folder in samplers.__path__:  # not its sub-packages, which are training
        yield from sorted(Path(folder).glob("*.py"))
    yield from (Path(__file__).with_name(name) for name in _RUN_BY)


def _head(path: Path) -> str:
    with path.open("rb") as file:
        start = hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()[:16]
    return f"{path.name}, {path.stat().st_size} bytes, {start}"
