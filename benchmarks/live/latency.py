"""Camera to shown frame, and control to first changed frame, in a real browser. One JSON line last.

`python benchmarks/live/latency.py [--minutes 0.5] [--input-fps 60] [--speed 1] [--controls 20]
[--model mirror]`

A page of headless Chromium draws the time into its camera (a canvas), sends it over the duplex
endpoint and reads it from what comes back, so that one clock measures the whole way: capture,
encode, network, decode, fit, engine, encode, network, jitter buffer, decode, display. The model
`mirror` shows what it sees. `--speed 0.33`: the engine's process is stopped two thirds of the time,
in turns of 30 ms. Controls switch the strength between the model's own and 1, which makes it grey.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from playwright.sync_api import Page, sync_playwright

from benchmarks.live.figures import quantile
from onbeat.models.registry import model_names
from tests.e2e.chromium import launch
from tests.e2e.server_process import ServerProcess

SCRIPT = Path(__file__).with_name("latency_page.js")
TURN_SECONDS = 0.03
WARM_SECONDS = 5.0
CONTROL_SECONDS = 1.5
CHUNKS, MORE_SECONDS = 2, 0.15
WINDOWS = 5


@contextmanager
def slowed(server: int, speed: float) -> Iterator[None]:
    """The engine process of this server runs `speed` of the time."""
    (engine,) = [
        p for p in psutil.Process(server).children() if "onbeat.server.engine.worker" in p.cmdline()
    ]
    stop = threading.Event()

    def turns() -> None:
        while not stop.is_set():
            engine.suspend()
            time.sleep(TURN_SECONDS * (1 - speed))
            engine.resume()
            time.sleep(TURN_SECONDS * speed)

    thread = threading.Thread(target=turns, daemon=True)
    if speed < 1:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if speed < 1:
            thread.join()
            engine.resume()


def watch(page: Page, seconds: float) -> list[tuple[float, float]]:
    """(instant, age) of each shown frame, ms."""
    ages: list[tuple[float, float]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        page.wait_for_timeout(min(1000.0, 1000 * max(0.05, end - time.monotonic())))
        ages += [(at, age) for at, age in page.evaluate("latency.take()")["ages"]]
    return ages


def steer(page: Page, count: int, strength: float) -> list[float]:
    """Milliseconds from each of `count` controls to the first frame that it changed."""
    took: list[float] = []
    for i in range(count):
        grey = i % 2 == 0
        page.evaluate("([s, g]) => latency.steer(s, g)", [1.0 if grey else strength, grey])
        deadline = time.monotonic() + 10 * CONTROL_SECONDS
        while True:
            page.wait_for_timeout(1000 * CONTROL_SECONDS / 3)
            taken = page.evaluate("latency.take()")
            took += taken["controls"]
            if not taken["waits"] or time.monotonic() > deadline:
                break
        page.wait_for_timeout(100 + 137 * (i % 5))
    return took


def measure(arguments: argparse.Namespace, page: Page, server: ServerProcess) -> dict[str, Any]:
    model = server.get("/v1/models")["data"][0]
    strength = arguments.strength or model["default_strength"]
    body = {"prompt": "a mirror", "mode": "video-to-video", "strength": strength, "audio": False}
    session = server.post("/v1/sessions", body)
    page.goto(server.url)
    width, height = map(int, arguments.camera.split("x"))
    page.evaluate(
        SCRIPT.read_text(),
        {
            "duplex": session["duplex_url"],
            "session": f"/v1/sessions/{session['id']}",
            "fps": arguments.input_fps,
            "width": width,
            "height": height,
        },
    )
    watch(page, WARM_SECONDS)
    ages = watch(page, 60 * arguments.minutes)
    controls = steer(page, arguments.controls, strength)
    stats = server.get("/v1/overview")
    server.delete(f"/v1/sessions/{session['id']}")
    return report(arguments, model, ages, controls) | {"engine": stats["live"]["on_time_ratio"]}


def report(
    arguments: argparse.Namespace,
    model: dict[str, Any],
    ages: list[tuple[float, float]],
    controls: list[float],
) -> dict[str, Any]:
    chunk = 1000 * model["chunk_frames"] / model["fps"]
    values = [age for _, age in ages]
    size = max(1, len(values) // WINDOWS)
    windows = [values[i : i + size] for i in range(0, size * WINDOWS, size)]
    return {
        "benchmark": "live/latency",
        "model": model["id"],
        "chunk_ms": chunk,
        "input_fps": arguments.input_fps,
        "speed": arguments.speed,
        "minutes": arguments.minutes,
        "frames": len(values),
        "shown_fps": round(len(values) / (60 * arguments.minutes), 2),
        "age_ms": {
            "p50": round(median(values)),
            "p95": round(quantile(values, 0.95)),
            "p99": round(quantile(values, 0.99)),
            "max": round(max(values)),
        },
        "age_bound_ms": round(CHUNKS * chunk + 1000 * MORE_SECONDS),
        "age_p95_by_fifths_ms": [round(quantile(w, 0.95)) for w in windows],
        "controls": len(controls),
        "control_ms": {
            "p50": round(median(controls)),
            "p95": round(quantile(controls, 0.95)),
            "max": round(max(controls)),
        }
        if controls
        else None,
        "control_bound_ms": round(CHUNKS * chunk),
    }


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=0.5, help="of watching")
    parser.add_argument("--input-fps", type=int, default=60)
    parser.add_argument("--speed", type=float, default=1.0, help="of the engine's process, up to 1")
    parser.add_argument("--controls", type=int, default=20)
    parser.add_argument("--camera", default="256x256", help="size of the camera's pictures")
    parser.add_argument("--model", default="mirror", choices=model_names())
    parser.add_argument("--strength", type=float, help="absent: the model's")
    arguments = parser.parse_args()
    if not 0 < arguments.speed <= 1:
        parser.error(f"--speed is {arguments.speed}; allowed: above 0, up to 1")
    if arguments.minutes <= 0:
        parser.error(f"--minutes is {arguments.minutes}; allowed: above 0")
    return arguments


def main() -> None:
    arguments = parsed()
    with tempfile.TemporaryDirectory(prefix="onbeat-latency-") as folder, sync_playwright() as play:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        server = ServerProcess(Path(folder), "--model", arguments.model)
        browser = launch(play)
        if browser is None:
            raise SystemExit("no Chromium on the path")
        try:
            server.wait_ready()
            page = browser.new_page()
            with slowed(server.process.pid, arguments.speed):
                found = measure(arguments, page, server)
        finally:
            browser.close()
            server.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
