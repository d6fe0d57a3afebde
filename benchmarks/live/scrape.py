"""What looking at a server costs it: scrapes, and the latency page. One JSON line last.

`python -m benchmarks.live.scrape [--sessions 500] [--watched 16] [--seconds 20]`

A front with a synthetic engine and no WebRTC in a process of its own. First `--sessions` sessions
are opened and /metrics is fetched 50 times, after one session alone. Then, on a new server with
`--watched` sessions, its processor time is taken with no page open and with one reader of the
overview's events, in turns (three each); the reader takes them as they come, as the page does.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.live.figures import quantile
from onbeat.server.cli.flags import number, whole

SCRAPES, TURNS = 50, 3
SERVE = """
import sys, threading, pathlib
from tests.server.api.fake_engine import FakeEngine
from tests.server.api.fake_media import FakeMedia
from tests.server.api.local_server import LocalServer
most = int(sys.argv[2])
media = FakeMedia()
server = LocalServer(
    FakeEngine(capacity=most), lambda: media, data_dir=pathlib.Path(sys.argv[1]),
    max_sessions=most, max_active_sessions=most, max_viewers=most, pause_after_seconds=3600,
    idle_session_seconds=3600,
)
print(server.url, flush=True)
sys.stdin.read()
server.close()
"""


class Target:
    """A server in its own process."""

    def __init__(self, folder: Path, most: int) -> None:
        command = [sys.executable, "-c", SERVE, str(folder), str(most)]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._child.stdout is not None
        self.url = self._child.stdout.readline().strip()
        self.process = psutil.Process(self._child.pid)
        self._ready()

    def _ready(self) -> None:
        for _ in range(300):
            try:
                self.get("/ready")
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the server is not ready")

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return bytes(answer.read())

    def session(self, watched: bool) -> None:
        made = json.loads(self._post("/v1/sessions", b'{"prompt": "a red ball"}', "json"))
        if watched:
            self._post(made["duplex_url"], b"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\n", "sdp")

    def _post(self, path: str, body: bytes, kind: str) -> bytes:
        headers = {"Content-Type": f"application/{kind}"}
        request = urllib.request.Request(self.url + path, body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    def cpu(self) -> float:
        """Seconds of its processor time so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def close(self) -> None:
        self._child.communicate("", timeout=60)


def scrapes(target: Target) -> dict[str, Any]:
    took, text = [], b""
    for _ in range(SCRAPES):
        began = time.perf_counter()
        text = target.get("/metrics")
        took.append(1e3 * (time.perf_counter() - began))
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    return {
        "ms_p50": quantile(took, 0.5),
        "ms_p95": quantile(took, 0.95),
        "ms_least": round(min(took), 1),
        "series": series,
        "bytes": len(text),
    }


def growing(folder: Path, sessions: int) -> dict[str, Any]:
    target = Target(folder, sessions)
    target.session(watched=True)
    time.sleep(2)
    one = scrapes(target)
    for _ in range(sessions - 1):
        target.session(watched=False)
    time.sleep(2)
    many = scrapes(target)
    busy = target.cpu()
    time.sleep(3)
    busy = (target.cpu() - busy) / 3
    target.close()
    return {"one": one, "many": many, "front_and_fake_engine_cores": round(busy, 2)}


@contextmanager
def reader(url: str) -> Iterator[list[int]]:
    """Takes the overview's events until left; their sizes."""
    stream = urllib.request.urlopen(f"{url}/v1/overview/events", timeout=60)
    sizes: list[int] = []
    over = threading.Event()

    def read() -> None:
        for line in stream:
            if over.is_set():
                return
            if line.startswith(b"data:"):
                sizes.append(len(line))

    thread = threading.Thread(target=read)
    thread.start()
    yield sizes
    over.set()
    thread.join()
    stream.close()


def page(folder: Path, watched: int, seconds: float) -> dict[str, Any]:
    target = Target(folder, watched)
    for _ in range(watched):
        target.session(watched=True)
    time.sleep(5)
    without: list[float] = []
    with_one: list[float] = []
    for _ in range(TURNS):
        without.append(share(target, seconds))
        with reader(target.url) as sizes:
            with_one.append(share(target, seconds))
    target.close()
    return {
        "without_percent_of_a_core": round(100 * median(without), 2),
        "with_percent_of_a_core": round(100 * median(with_one), 2),
        "added_percent_of_a_core": round(100 * (median(with_one) - median(without)), 2),
        "bytes_an_event": round(median(sizes)),
    }


def share(target: Target, seconds: float) -> float:
    before, began = target.cpu(), time.perf_counter()
    time.sleep(seconds)
    return (target.cpu() - before) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=whole(2), default=500)
    parser.add_argument("--watched", type=whole(), default=16)
    parser.add_argument("--seconds", type=number, default=20.0, help="of each turn")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a").mkdir()
        found = {
            "benchmark": "live/scrape",
            "sessions": given.sessions,
            **growing(Path(folder) / "a", given.sessions),
            "watched": given.watched,
            "page": page(Path(folder), given.watched, given.seconds),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
