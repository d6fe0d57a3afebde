"""What the engine's GPU does, by NVIDIA's driver (NVML, through nvidia-ml-py of the extra `cuda`).

Nothing is loaded before it is asked for, and nothing is there without the package, a driver and a
device: whoever shows these figures leaves them out then. It measures, and decides nothing.
Source: the NVML reference manual (nvmlDeviceGetUtilizationRates, ...MemoryInfo, ...PowerUsage).
"""

import importlib
import logging
import os
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

log = logging.getLogger("onbeat.api")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFigures:
    """`busy`: share of the last sample in which a kernel ran, 0 to 1; memory in bytes, of all
    processes; `power`: watts, None where the device does not tell."""

    name: str
    busy: float
    memory: int
    memory_total: int
    power: float | None

    def view(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "busy": round(self.busy, 3),
            "memory_bytes": self.memory,
            "memory_bytes_total": self.memory_total,
            "power_w": None if self.power is None else round(self.power, 1),
        }


class Gpu:
    """One device. Ask `look` from time to time; it may take some milliseconds. Not thread-safe."""

    def __init__(self, visible: str | None = None) -> None:
        """`visible`: as CUDA_VISIBLE_DEVICES names devices; None: as the environment does."""
        self._visible = os.environ.get("CUDA_VISIBLE_DEVICES") if visible is None else visible
        self._nvml: Any = None
        self._handle: Any = None
        self._asked = False

    def look(self) -> GpuFigures | None:
        """None without a GPU, or for one that has stopped answering."""
        if not self._asked:
            self._asked = True
            self._open()
        if self._handle is None:
            return None
        try:
            return self._read()
        except self._nvml.NVMLError as error:
            log.warning("the GPU does not tell its figures any more: %s", error)
            self._handle = None
            return None

    def close(self) -> None:
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
        self._nvml = self._handle = None

    def _open(self) -> None:
        """The driver and the first visible device; a machine without them is as good as any."""
        first = (self._visible or "0").split(",")[0].strip()
        if self._visible == "" or first == "-1":
            return  # the engine may not see one either
        try:
            nvml: Any = importlib.import_module("pynvml")
        except ImportError:
            return
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            log.info("no figures of a GPU: %s", error)
            return
        self._nvml = nvml
        try:
            by_index = first.isdecimal()
            find = nvml.nvmlDeviceGetHandleByIndex if by_index else nvml.nvmlDeviceGetHandleByUUID
            self._handle = find(int(first) if by_index else first)
        except nvml.NVMLError as error:
            log.info("no figures of GPU %s: %s", first, error)

    def _read(self) -> GpuFigures:
        nvml, handle = self._nvml, self._handle
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        return GpuFigures(
            name=_text(nvml.nvmlDeviceGetName(handle)),
            busy=nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            memory=int(memory.used),
            memory_total=int(memory.total),
            power=self._power(),
        )

    def _power(self) -> float | None:
        """Milliwatts at the source. Some devices, and parts of devices (MIG), do not measure it."""
        try:
            return float(self._nvml.nvmlDeviceGetPowerUsage(self._handle)) / 1e3
        except self._nvml.NVMLError_NotSupported:
            return None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


class GpuMetrics:
    """Gauges that are there from the first figures on: without a GPU /metrics has none."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._gauges: dict[str, Gauge] = {}

    def seen(self, figures: GpuFigures) -> None:
        self._set("gpu_busy_ratio", "Share of time the GPU ran a kernel", figures.busy)
        self._set("gpu_memory_bytes", "GPU memory in use, by all programs", figures.memory)
        self._set("gpu_memory_bytes_limit", "GPU memory in all", figures.memory_total)
        if figures.power is not None:
            self._set("gpu_power_watts", "Power that the GPU draws", figures.power)

    def _set(self, name: str, text: str, value: float) -> None:
        if name not in self._gauges:
            self._gauges[name] = Gauge(f"onbeat_{name}", text, registry=self._registry)
        self._gauges[name].set(value)
