"""Run a benchmark of live media before all other programs of a busy machine.

`python -m benchmarks.live.ahead python -m benchmarks.live.sync`

Real-time priority alone distorts what is measured: a forward of the engine then keeps a core for up
to 100 ms from a server or a browser that wakes up, which no usual scheduler does. So the server
goes first, then the browser, then everything else, and the engine last of all; other programs get
what is left. Linux, as root. It waits for nothing: on a machine at rest it is not needed.
"""

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress

import psutil

SERVER, BROWSER, USUAL, ENGINE = 8, 7, 5, 3
"""Priorities of SCHED_RR."""
EARLY = 15.0
"""Seconds after the first process of a browser: those of other pages, opened later, are USUAL."""
FOLLOWED = 20.0
"""Seconds in which new threads of a process get its priority."""


def priority(command: str, age: float) -> int:
    """Of a process; `age`: seconds since the first one of a browser."""
    if "onbeat.server.engine.worker" in command:
        return ENGINE
    if "chrom" in command:
        return BROWSER if age < EARLY else USUAL
    return SERVER if "onbeat.server" in command else USUAL


def place(pid: int, rank: int) -> None:
    """All threads of the process."""
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(rank))


def follow(root: psutil.Process) -> None:
    """Places the descendants of `root` until it ends."""
    seen: dict[int, tuple[int, float]] = {}
    browser_at: float | None = None
    with suppress(psutil.NoSuchProcess):
        while True:
            now = time.monotonic()
            for process in root.children(recursive=True):
                with suppress(psutil.Error):
                    command = " ".join(process.cmdline())
                    if process.pid in seen or not command:
                        continue
                    if browser_at is None and "chrom" in command:
                        browser_at = now
                    rank = priority(command, now - (browser_at or now))
                    seen[process.pid] = rank, now
            for pid, (rank, since) in seen.items():
                if now - since < FOLLOWED:
                    place(pid, rank)
            time.sleep(0.5)


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m benchmarks.live.ahead COMMAND...")
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(USUAL))
    child = subprocess.Popen(sys.argv[1:])
    threading.Thread(target=follow, args=(psutil.Process(child.pid),), daemon=True).start()
    raise SystemExit(child.wait())


if __name__ == "__main__":
    main()
