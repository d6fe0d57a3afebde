"""A clock that never steps and that all processes of a machine share, and which run of it it is.

So a wait is measured true across restarts of the server, whatever happens to the wall clock. What
it is not: an instant that people can read.
"""

import secrets
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """`seconds` in one run of a machine (`boot`), from start to end; beside those of another run
    they say nothing."""

    boot: str
    seconds: float

    def since(self, boot: str | None, seconds: float | None) -> float | None:
        """How long ago that was; None if it was in another run."""
        if boot != self.boot or seconds is None:
            return None
        return max(0.0, self.seconds - seconds)


def now() -> Instant:
    """Time asleep counts, where the system can say."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return Instant(boot=_boot(), seconds=time.clock_gettime(time.CLOCK_BOOTTIME))
    return Instant(boot=_boot(), seconds=time.monotonic())


@cache
def _boot() -> str:
    """Without such a name a process compares only with itself."""
    return BOOT.read_text().strip() if BOOT.exists() else secrets.token_hex(16)
