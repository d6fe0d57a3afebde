"""Whose work this machine does: the server's, its engine's, or other programs'.

Shares of all its cores since the last look, from the operating system's counters. A server that is
late because somebody else has the processor must not blame its own streams. It samples, and decides
nothing but the words.
"""

from dataclasses import dataclass

import psutil

TAKEN, FULL = 0.25, 0.85
"""Other programs have so much of the machine, and all together so much: then they are to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuShares:
    """0 to 1 of all cores."""

    front: float
    engine: float
    others: float

    @property
    def taken(self) -> bool:
        """Whether other programs leave too little."""
        return self.others >= TAKEN and self.front + self.engine + self.others >= FULL


class Machine:
    """Ask `look` from time to time. Not thread-safe."""

    def __init__(self) -> None:
        self._own = psutil.Process()
        self._engine: psutil.Process | None = None
        self._last = self._read(None)

    def look(self, engine_pid: int | None) -> CpuShares | None:
        """Shares since the last look; None if no time has passed by the system's counters."""
        now = self._read(engine_pid)
        whole, idle, front, engine = (a - b for a, b in zip(now, self._last, strict=True))
        self._last = now
        if whole <= 0:
            return None
        front, engine = max(0.0, front) / whole, max(0.0, engine) / whole
        busy = min(1.0, max(0.0, 1 - idle / whole))
        others = max(0.0, busy - front - engine)
        return CpuShares(front=min(1.0, front), engine=min(1.0, engine), others=others)

    def _read(self, engine_pid: int | None) -> tuple[float, float, float, float]:
        """Seconds of all cores together: in all, idle, of this process, of the engine's."""
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        return sum(times) - guests, idle, _seconds(self._own), self._of_engine(engine_pid)

    def _of_engine(self, pid: int | None) -> float:
        """0 while there is none; it is another one after a restart."""
        if pid is None or pid == self._own.pid:
            self._engine = None
            return 0.0
        try:
            if self._engine is None or self._engine.pid != pid:
                self._engine = psutil.Process(pid)
            return _seconds(self._engine)
        except psutil.Error:
            self._engine = None
            return 0.0


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
