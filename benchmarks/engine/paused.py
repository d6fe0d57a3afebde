"""200 sessions open on one engine, 16 of them active, swapped all the while; memory over cycles.

    python benchmarks/engine/paused.py --seconds 30 --cycles 1000 --json

First part, wall clock: every `1 / --rate` seconds the stream that has run longest is paused and the
one that has been paused longest is resumed. After all have had a turn, and have a full window in
host memory, counting begins: how long a resume takes, from the command to its first chunk lying in
its slot, in chunk lengths; how much of the copying was exposed; frames on time. Second part: few
streams, as many pauses and resumes as fast as pages move, and how resident memory grows over the
last three quarters of them. The last line is JSON.
"""

import argparse
import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from onbeat.models.registry import load_model
from onbeat.models.spec import CausalModel
from onbeat.server.cli.flags import number, number_or_zero, whole
from onbeat.server.engine.bench import PROMPTS
from onbeat.server.engine.bench_paused import Swaps, Tally
from onbeat.server.engine.engine import Engine
from onbeat.server.engine.local import LocalEngine
from onbeat.server.engine.messages import ChunkReady, EngineDown, EngineReady
from onbeat.server.engine.settings import EngineSettings

START_SECONDS = 60.0
STUCK_SECONDS = 20.0
SAMPLES = 40
CYCLING = 16
COLOURS = ("red", "green", "blue", "yellow", "purple", "orange", "white", "black")


class Run:
    """A local engine with swaps on it."""

    def __init__(
        self, model: CausalModel, settings: EngineSettings, sessions: int, active: int
    ) -> None:
        self.local = LocalEngine(model, settings, slots=4 * active)
        prompts = [f"{colour} {prompt}" for prompt in PROMPTS for colour in COLOURS]
        self.swaps = Swaps(self.local.send, sessions=sessions, active=active, prompts=prompts)
        self.local.start()
        deadline = time.monotonic() + START_SECONDS
        while not isinstance(event := self.local.receive(0.5), EngineReady):
            if isinstance(event, EngineDown) or time.monotonic() > deadline:
                raise RuntimeError(f"the engine did not start: {event}")
        self.swaps.open()

    @property
    def engine(self) -> Engine:
        assert self.local.engine is not None
        return self.local.engine

    def watch(self, seconds: float) -> None:
        """Reads events for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            event = self.local.receive(left)
            if isinstance(event, EngineDown):
                raise RuntimeError(event.reason)
            if event is not None:
                self.swaps.see(event)
            if isinstance(event, ChunkReady):
                self.local.take(event)

    def swapping(self, seconds: float, rate: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.swaps.swap(time.monotonic())
            self.watch(1 / rate)

    def close(self) -> dict[str, int]:
        """Ends all; what is left afterwards."""
        self.local.close()
        engine = self.engine
        engine.check_integrity()
        left = {
            "pages": engine.pool.used,
            "buffers": engine.residency.buffers.used,
            "copy_threads": sum(t.name.startswith("copy-") for t in threading.enumerate()),
        }
        if any(left.values()):
            raise RuntimeError(f"left behind: {left}")
        return left


def settings_of(args: argparse.Namespace, **more: Any) -> EngineSettings:
    return EngineSettings(
        max_streams=args.sessions,
        max_active=args.pages_for,
        max_jobs=0,
        admission=args.admission,
        max_rows=16,
        **more,
    )


def swapping(model: CausalModel, args: argparse.Namespace) -> dict[str, Any]:
    """The first part."""
    run = Run(model, settings_of(args), args.sessions, args.active)
    for _ in range(args.active):
        run.swaps.resume(time.monotonic())
        run.watch(0.08)
    run.swapping(args.sessions / args.rate, args.rate)
    run.swaps.tally, warm = Tally(), replace(run.engine.residency.copied)
    run.swapping(args.seconds, args.rate)
    run.watch(1.0)
    tally, waiting, threads = run.swaps.tally, run.swaps.waiting, threading.active_count()
    residency = run.engine.residency
    places, host = residency.report().places, residency.host_bytes
    copied, chunk = residency.copied.since(warm), model.spec.chunk_seconds
    speed = residency.copied.speed
    left = run.close()
    chunks = sorted(seconds / chunk for seconds in tally.latencies)
    return {
        "resumes": len(chunks),
        "resumes_without_a_chunk": waiting,
        "resume_chunks": {name: round(at(chunks, share), 3) for name, share in QUANTILES.items()},
        "on_time_ratio": round(tally.on_time_ratio, 4),
        "dropped": dict(tally.dropped),
        "mean_steps": round(sum(k * n for k, n in tally.steps.items()) / tally.steps.total(), 2),
        "exposed_ratio": round(copied.exposed / max(copied.seconds, 1e-9), 4),
        "waited_ratio": round(copied.waited / max(copied.seconds, 1e-9), 4),
        "copied_mib": round(copied.bytes / 2**20, 1),
        "copied_ms": round(1e3 * copied.seconds, 2),
        "exposed_ms": round(1e3 * copied.exposed, 2),
        "offloads": copied.offloads,
        "restores": copied.restores,
        "left_with_latents": copied.dropped,
        "mib_per_second": {k: round(v / 2**20) for k, v in speed.items()},
        "places_at_the_end": places,
        "host_mib_at_the_end": round(host / 2**20, 1),
        "threads": threads,
        "left": left,
        "failures": tally.failures[:3],
    }


QUANTILES = {"p50": 0.5, "p95": 0.95, "max": 1.0}


def at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def cycling(model: CausalModel, args: argparse.Namespace) -> dict[str, Any]:
    """The second part: each cycle is one stream paused, its pages copied out, and one restored."""
    run = Run(model, settings_of(args, offload_after_seconds=0.0), CYCLING, CYCLING // 4)
    window = model.spec.window_chunks * model.spec.chunk_seconds
    run.swapping(6 * window, CYCLING / 4 / window)
    copied = run.engine.residency.copied
    first, samples = copied.restores, [(0, resident_kib())]
    every = max(1, args.cycles // SAMPLES)
    end = time.monotonic() + STUCK_SECONDS + args.cycles * 10 * args.cycle_seconds
    while (done := copied.restores - first) < args.cycles:
        if time.monotonic() > end:
            raise RuntimeError(f"{done} of {args.cycles} restores in time")
        run.swapping(args.cycle_seconds, 1 / args.cycle_seconds)
        if done // every >= len(samples):
            samples.append((done, resident_kib()))
    left = run.close()
    return {
        "cycles": done,
        "copied_out": copied.offloads,
        "copied_in": copied.restores,
        "buffers_made": run.engine.residency.buffers.made,
        "rss_mib": [round(samples[0][1] / 1024, 1), round(samples[-1][1] / 1024, 1)],
        "rss_kib_per_cycle": round(slope(samples[len(samples) // 4 :]), 3),
        "left": left,
    }


def resident_kib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def slope(points: list[tuple[int, float]]) -> float:
    """Of a straight line through the points, by least squares."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    below = sum((x - mean_x) ** 2 for x, _ in points)
    return above / below if below else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=whole(), default=200)
    parser.add_argument("--active", type=whole(), default=16)
    parser.add_argument(
        "--pages-for", type=whole(), default=24, help="streams the pool is sized for"
    )
    parser.add_argument(
        "--seconds", type=number_or_zero, default=30.0, help="of swapping; 0 leaves it out"
    )
    parser.add_argument("--rate", type=number, default=5.0, help="swaps a second")
    parser.add_argument("--cycles", type=whole(0), default=1000, help="0 leaves them out")
    parser.add_argument("--cycle-seconds", type=number, default=0.02, help="at least, of a cycle")
    parser.add_argument("--admission", action="store_true", help="a resume is admitted or waits")
    parser.add_argument("--json", action="store_true", help="the JSON line only")
    args = parser.parse_args()
    if args.active >= args.sessions or args.active > args.pages_for:
        parser.error(
            f"--active: {args.active}; allowed: fewer than --sessions ({args.sessions}), "
            f"at most --pages-for ({args.pages_for})"
        )
    model = load_model("toybox")
    result: dict[str, Any] = {"benchmark": "paused", "sessions": args.sessions}
    result |= {"active": args.active, "pages_for": args.pages_for}
    if args.seconds:
        result["swapping"] = swapping(model, args)
    if args.cycles:
        result["cycling"] = cycling(model, args)
    if not args.json:
        for part in ("swapping", "cycling"):
            for name, value in result.get(part, {}).items():
                print(f"{part:9} {name:24} {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
