"""What an event loop's process holds, for tests that nothing is left behind."""

import asyncio
import os
import threading

POOLED = "asyncio_"
"""Names of the loop's own pool of threads, which grows when it is busy and is kept."""


def census() -> tuple[int, int, int]:
    """Tasks, open descriptors, threads but for those of the loop's pool."""
    threads = [t for t in threading.enumerate() if not t.name.startswith(POOLED)]
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd")), len(threads)
