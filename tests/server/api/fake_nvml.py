"""A stand-in for nvidia-ml-py: one device with figures that tests set."""

from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """The library's."""


class NotSupported(NVMLError):
    """The device does not tell."""


class FakeNvml:
    """Install it as the module `pynvml`. `broken`: calls that raise."""

    NVMLError, NVMLError_NotSupported = NVMLError, NotSupported

    def __init__(self, devices: tuple[str, ...] = ("GPU-0",)) -> None:
        self.devices = devices
        self.busy, self.used, self.milliwatts = 40, 3 << 30, 250_500
        self.broken: dict[str, type[NVMLError]] = {}
        self.asked: list[str] = []
        self.open = 0

    def _call(self, name: str) -> None:
        self.asked.append(name)
        if name in self.broken:
            raise self.broken[name](name)

    def nvmlInit(self) -> None:
        self._call("init")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index >= len(self.devices):
            raise NVMLError("no such device")
        return self.devices[index]

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:
        if name not in self.devices:
            raise NVMLError("no such device")
        return name

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return f"Card {handle}".encode()

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        self._call("busy")
        return SimpleNamespace(gpu=self.busy, memory=1)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(used=self.used, total=80 << 30)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        self._call("power")
        return self.milliwatts
