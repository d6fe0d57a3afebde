"""How fast jobs are accepted: arrivals at a rate that waits for nobody. JSON line last.

`python -m benchmarks.jobs.accept [--rate 100] [--seconds 60] [--postgres] [--folder DIR]`

A server of its own process with a synthetic engine that works on the jobs meanwhile; Poisson
arrivals over kept connections. Latency counts from the instant at which a request was due, so that
a slow server cannot hide behind requests that were not sent. `server_cpu`: cores' worth, of the
server with its encoders; `disk`: how long the folder's disk takes to have 4 KiB for good, asked
ten times a second. `slow_seconds`: for each second in which a job took over 50 ms, how many did,
the longest, the disk's longest then, and by how long a process that sleeps 5 ms at a time
overslept: what of it was the machine's.
"""

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.live.figures import quantile
from onbeat.server.cli.flags import whole
from tests.server.jobs.postgres import new_database, running
from tests.server.jobs.targets import Zygote

CONNECTIONS = 64
BODY = json.dumps({"prompt": "a red ball", "seconds": "1"}).encode()
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
WARM_UP = 20
SLOW_MS = 50.0


class Disk:
    """Asks a disk, while it is entered, to force 4 KiB; `asked`: when, and how many ms it took."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[tuple[float, float]] = []
        self._path, self._stop = folder / "asked", threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        with self._path.open("wb", buffering=0) as file:
            while not self._stop.wait(0.1):
                began = time.perf_counter()
                os.pwrite(file.fileno(), bytes(4096), 0)
                os.fdatasync(file.fileno())
                self.asked.append((began, 1e3 * (time.perf_counter() - began)))

    @property
    def took(self) -> list[float]:
        return [ms for _, ms in self.asked]


SLEEPER = """
import sys, threading, time
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
while not over.is_set():
    began = time.perf_counter()
    time.sleep(0.005)
    late = 1e3 * (time.perf_counter() - began) - 5
    if late > 5:
        print(began, late)
"""


class Sleeper:
    """Tells how late the machine wakes a process up, while it is entered; `late`: when, and ms."""

    def __init__(self) -> None:
        self.late: list[tuple[float, float]] = []

    def __enter__(self) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", SLEEPER]
        self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def __exit__(self, *_: object) -> None:
        told = self._child.communicate("", timeout=60)[0]
        lines = (line.split() for line in told.splitlines())
        self.late = [(float(began), float(ms)) for began, ms in lines]


class Line:
    """One kept connection, as little of HTTP as this needs: a client that costs as much of the two
    cores as the server would be what is measured."""

    def __init__(self, host: str, port: int) -> None:
        self._where = host, port
        head = f"POST /v1/videos HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json"
        self._request = f"{head}\r\ncontent-length: {len(BODY)}\r\n\r\n".encode() + BODY
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self) -> tuple[int, bytes]:
        """Status and body."""
        if self._streams is None or self._streams[0].at_eof():
            self.close()  # the server lets go of those that were idle
            self._streams = await asyncio.open_connection(*self._where)
        reader, writer = self._streams
        writer.write(self._request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(LENGTH.findall(head)[0])
        return int(head.split(b" ", 2)[1]), await reader.readexactly(length)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


Moment = tuple[float, float]
"""When something was due or begun, and ms that it took."""


async def load(url: str, rate: float, seconds: float) -> tuple[list[Moment], list[str]]:
    """Latencies of accepted jobs, and what went wrong with others."""
    arrivals, latencies, errors = random.Random(1), list[Moment](), list[str]()
    host, port = url.removeprefix("http://").split(":")
    lines = [Line(host, int(port)) for _ in range(CONNECTIONS)]
    free: asyncio.LifoQueue[Line] = asyncio.LifoQueue()
    for line in lines:
        free.put_nowait(line)

    async def ask(due: float) -> None:
        line = await free.get()
        try:
            status, body = await line.ask()
        except (OSError, EOFError) as error:
            errors.append(repr(error))
            return  # and is not used again
        free.put_nowait(line)
        if status == 200:
            latencies.append((due, 1e3 * (time.perf_counter() - due)))
        else:
            errors.append(f"{status}: {body[:100].decode()}")

    for _ in range(WARM_UP):
        await ask(time.perf_counter())
    latencies.clear()
    due, asked = time.perf_counter(), set[asyncio.Task[None]]()
    end = due + seconds
    while (due := due + arrivals.expovariate(rate)) < end:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        asked.add(asyncio.create_task(ask(due)))
    await asyncio.gather(*asked)
    for line in lines:
        line.close()
    return latencies, errors


def measure(folder: Path, url: str | None, rate: float, seconds: float) -> dict[str, Any]:
    zygote, disk, sleeper = Zygote(), Disk(folder), Sleeper()
    settings = {
        "data_dir": str(folder / "data"),
        "database_url": url,
        "max_jobs_queued": 10_000_000,
    }
    server = zygote.start(settings, chunk_seconds=0.02)
    try:
        process = psutil.Process(server.pid)
        before, began = sum(process.cpu_times()[:2]), time.perf_counter()
        with disk, sleeper:
            latencies, errors = asyncio.run(load(server.client.url, rate, seconds))
        used = sum(process.cpu_times()[:2]) - before
        share = used / (time.perf_counter() - began)
        rows = server.client.counted()
    finally:
        server.kill()
        zygote.close()

    def at(share: float) -> float:
        return quantile((ms for _, ms in latencies), share)

    return {
        "rate": rate,
        "seconds": seconds,
        "accepted": len(latencies),
        "errors": len(errors),
        "first_errors": errors[:3],
        "on_record": rows,
        "p50_ms": at(0.5),
        "p95_ms": at(0.95),
        "p99_ms": at(0.99),
        "max_ms": at(1.0),
        "server_cpu": round(share, 2),
        "disk_p50_ms": quantile(disk.took, 0.5),
        "disk_p99_ms": quantile(disk.took, 0.99),
        "disk_max_ms": quantile(disk.took, 1.0),
        "slow_seconds": slow_seconds(latencies, disk.asked, sleeper.late),
    }


def slow_seconds(
    latencies: list[Moment], disk: list[Moment], late: list[Moment]
) -> list[dict[str, float]]:
    """Those with a job that took over SLOW_MS, since the first one was due."""
    first = min((at for at, _ in latencies), default=0.0)

    def longest(moments: list[Moment], second: int) -> float:
        return round(max((ms for at, ms in moments if int(at - first) == second), default=0.0), 1)

    slow = Counter(int(at - first) for at, ms in latencies if ms > SLOW_MS)
    return [
        {
            "second": second,
            "jobs": count,
            "longest_ms": longest(latencies, second),
            "disk_ms": longest(disk, second),
            "overslept_ms": longest(late, second),
        }
        for second, count in sorted(slow.items())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rate", type=float, default=100.0, help="jobs a second")
    parser.add_argument("--seconds", type=whole(), default=60)
    parser.add_argument("--folder", help="where files lie; a temporary folder if unset")
    parser.add_argument("--postgres", action="store_true", help="instead of SQLite")
    args = parser.parse_args()
    with TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        if args.postgres:
            with running() as url:
                found = measure(folder, new_database(url, "jobs"), args.rate, args.seconds)
        else:
            found = measure(folder, None, args.rate, args.seconds)
    print(json.dumps({"database": "postgres" if args.postgres else "sqlite"} | found))


if __name__ == "__main__":
    main()
