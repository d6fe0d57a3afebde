"""How fast jobs are accepted: arrivals at a rate that waits for nobody. JSON line last.

`python -m benchmarks.jobs.accept [--rate 100] [--seconds 60] [--postgres] [--folder DIR]`

A server of its own process with a synthetic engine that works on the jobs meanwhile; Poisson
arrivals over kept connections. Latency counts from the instant at which a request was due, so that
a slow server cannot hide behind requests that were not sent. `server_cpu`: cores' worth, of the
server with its encoders; `disk`: how long the folder's disk takes to have 4 KiB for good, asked
ten times a second.
"""

import argparse
import asyncio
import json
import os
import random
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import psutil

from benchmarks.live.figures import quantile
from onbeat.server.cli.flags import whole
from tests.server.jobs.postgres import new_database, running
from tests.server.jobs.targets import Zygote

CONNECTIONS = 64
WARM_UP = 20


class Disk:
    """Asks a disk, while it is entered, to force 4 KiB; `took` in ms."""

    def __init__(self, folder: Path) -> None:
        self.took: list[float] = []
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
                self.took.append(1e3 * (time.perf_counter() - began))


async def load(url: str, rate: float, seconds: float) -> tuple[list[float], list[str]]:
    """Latencies of accepted jobs, and what went wrong with others."""
    arrivals, latencies, errors = random.Random(1), list[float](), list[str]()
    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)

    async def ask(client: httpx2.AsyncClient, due: float) -> None:
        body = {"prompt": "a red ball", "seconds": "1"}
        try:
            answer = await client.post("/v1/videos", json=body)
        except httpx2.HTTPError as error:
            errors.append(repr(error))
            return
        if answer.status_code == 200:
            latencies.append(time.perf_counter() - due)
        else:
            errors.append(f"{answer.status_code}: {answer.text[:100]}")

    async with httpx2.AsyncClient(base_url=url, limits=limits, timeout=60) as client:
        for _ in range(WARM_UP):
            await ask(client, time.perf_counter())
        latencies.clear()
        due, asked = time.perf_counter(), set[asyncio.Task[None]]()
        end = due + seconds
        while (due := due + arrivals.expovariate(rate)) < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            asked.add(asyncio.create_task(ask(client, due)))
        await asyncio.gather(*asked)
    return latencies, errors


def measure(folder: Path, url: str | None, rate: float, seconds: float) -> dict[str, Any]:
    zygote, disk = Zygote(), Disk(folder)
    settings = {
        "data_dir": str(folder / "data"),
        "database_url": url,
        "max_jobs_queued": 10_000_000,
    }
    server = zygote.start(settings, chunk_seconds=0.02)
    try:
        process = psutil.Process(server.pid)
        before, began = sum(process.cpu_times()[:2]), time.perf_counter()
        with disk:
            latencies, errors = asyncio.run(load(server.client.url, rate, seconds))
        used = sum(process.cpu_times()[:2]) - before
        share = used / (time.perf_counter() - began)
        rows = server.client.counted()
    finally:
        server.kill()
        zygote.close()

    def at(share: float) -> float:
        return quantile((1e3 * each for each in latencies), share)

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
    }


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
