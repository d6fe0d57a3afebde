"""Where a tick's time goes, and how much of it the host takes from the forwards.

A real engine with toybox and N live streams ticks on this thread, with the decode lane beside it.
Its parts are timed from outside. "host" is all of a tick but the model's calls and the sampler's
arithmetic on tensors (on a GPU both are kernels); "outside" is all but the model's calls. With
--plan-ahead on, forwards run in a lane of their own, and both are all but the time from the launch
of a forward to its end, as what the host does meanwhile is hidden. `--clock thread` counts the tick
thread's processor time, which other programs on the machine stretch less (not with --plan-ahead).
Run: python benchmarks/engine/host.py [--rows 1,4,16] [--seconds 20] --json. One JSON line last.
"""

import argparse
import gc
import json
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch

from onbeat.models.registry import load_model
from onbeat.models.spec import CausalModel
from onbeat.server.cli.flags import number, one_of, several, whole
from onbeat.server.engine import executor
from onbeat.server.engine.assemble import make_engine
from onbeat.server.engine.bench import PROMPTS
from onbeat.server.engine.engine import Engine
from onbeat.server.engine.messages import ChunkReady, Event, OpenStream, ReleaseSlot
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.slots import MemorySlots, slot_bytes

PARTS = {
    "_take_commands": "commands",
    "_collect": "collect",
    "_schedule": "plan",
    "_reserve": "reserve",
    "_publish": "publish",
}
DEVICE_PARTS = ("forward", "sample", "prefill", "noise", "encode")
SAMPLER = ("step_rows", "commit_latents")
"""Names in executor.py that are timed as "sample"."""


CLOCKS = {"wall": time.perf_counter, "thread": time.thread_time}


class Spans:
    """Seconds by part of the tick under way; a part inside another counts once, for itself."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.now: dict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            self._inside.append(0.0)
            started = self.clock()
            try:
                return call(*args, **named)
            finally:
                seconds = self.clock() - started
                self.now[part] += seconds - self._inside.pop()
                if self._inside:
                    self._inside[-1] += seconds

        return wrapped

    def take(self) -> dict[str, float]:
        parts, self.now = dict(self.now), defaultdict(float)
        return parts


class Rig:
    """An engine whose parts are timed, and a reader that empties its slots at once."""

    def __init__(
        self, model: CausalModel, streams: int, plan_ahead: str, clock: Callable[[], float]
    ) -> None:
        self.spans, self.rows, self.beside = Spans(clock), 0, plan_ahead == "on"
        self.slots = MemorySlots(slots=128, slot_bytes=slot_bytes(model.spec))
        settings = EngineSettings(admission=False, max_rows=max(streams, 1), plan_ahead=plan_ahead)
        self.engine = make_engine(model, settings, self.slots, self._emit)
        self._time_parts(model)
        for i in range(streams):
            prompt = PROMPTS[i % len(PROMPTS)]
            self.engine.submit(OpenStream(stream_id=f"s{i}", kind="live", prompt=prompt, seed=i))

    def _time_parts(self, model: CausalModel) -> None:
        engine, spans = self.engine, self.spans
        for name, part in PARTS.items():
            setattr(engine, name, spans.timed(part, getattr(engine, name)))
        engine._executor.launch = self._launching(engine._executor.launch)  # type: ignore[method-assign]
        for name, part in (("start_chunks", "noise"), ("prefill", "prefill")):
            setattr(engine._executor, name, spans.timed(part, getattr(engine._executor, name)))
        model.encode_prompt = spans.timed("encode", model.encode_prompt)  # type: ignore[method-assign]
        if not self.beside:
            model.denoise = spans.timed("forward", model.denoise)  # type: ignore[method-assign]
            self._time_sampler()

    def _time_sampler(self) -> None:
        for name in SAMPLER:
            original = getattr(executor, name)
            call = getattr(original, "original", original)
            wrapped = self.spans.timed("sample", call)
            wrapped.original = call  # type: ignore[attr-defined]
            setattr(executor, name, wrapped)

    def _launching(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(steps: Sequence[Any], commits: Sequence[Any]) -> Any:
            self.rows = len(steps) + len(commits)
            wait = self.spans.timed("gather", launch)(steps, commits)
            launched = time.perf_counter()

            def waited() -> Any:
                outcome = wait() if self.beside else self.spans.timed("gather", wait)()
                if self.beside:
                    self.spans.now["forward"] += time.perf_counter() - launched
                return outcome

            return waited

        return wrapped

    def _emit(self, event: Event) -> None:
        if isinstance(event, ChunkReady):
            self.engine.submit(ReleaseSlot(slot=event.slot))

    def run(self, seconds: float) -> list[tuple[int, float, dict[str, float]]]:
        """(rows, seconds, parts) of each tick."""
        ticks, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.rows = 0
            started = self.spans.clock()
            ran = self.engine.tick()
            ticks.append((self.rows, self.spans.clock() - started, self.spans.take()))
            if not ran:
                self.engine._sleep()
        return ticks


def measure(
    model: CausalModel, streams: int, seconds: float, plan_ahead: str, clock: str
) -> dict[str, Any]:
    rig = Rig(model, streams, plan_ahead, CLOCKS[clock])
    try:
        rig.engine._executor.start()
        gc.collect()
        gc.freeze()
        rig.run((model.spec.window_chunks + 4) * model.spec.chunk_seconds)
        return summary(streams, plan_ahead, rig.run(seconds), rig.engine)
    finally:
        rig.engine.close()


def summary(
    streams: int, plan_ahead: str, ticks: list[tuple[int, float, dict[str, float]]], engine: Engine
) -> dict[str, Any]:
    """Of ticks that ran at least three quarters of the rows of the largest one."""
    most = max(rows for rows, _, _ in ticks)
    full = [t for t in ticks if t[0] >= max(1, 0.75 * most)]
    whole = sum(seconds for _, seconds, _ in full)
    parts: dict[str, float] = defaultdict(float)
    for _, _, spans in full:
        for part, seconds in spans.items():
            parts[part] += seconds
    parts["rest"] = whole - sum(parts.values())
    host = [1.0 - sum(s.get(p, 0.0) for p in DEVICE_PARTS) / t for _, t, s in full]
    outside = [1.0 - s.get("forward", 0.0) / t for _, t, s in full]
    return {
        "streams": streams,
        "plan_ahead": plan_ahead,
        "plans_ahead": {"used": engine.planner.used, "wasted": engine.planner.wasted},
        "ticks": len(full),
        "rows_mean": round(sum(t[0] for t in full) / len(full), 2),
        "tick_ms": _percentiles([1e3 * t for _, t, _ in full], 2),
        "host_share": _percentiles(host, 4),
        "host_share_of_time": round(
            1.0 - sum(parts[p] for p in DEVICE_PARTS if p in parts) / whole, 4
        ),
        "outside_share": _percentiles(outside, 4),
        "parts_ms": {p: round(1e3 * s / len(full), 4) for p, s in sorted(parts.items())},
    }


def _percentiles(values: Sequence[float], digits: int) -> dict[str, float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        f"p{int(100 * share)}": round(ordered[min(last, int(share * len(ordered)))], digits)
        for share in (0.5, 0.99)
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=several(whole()), default="1,4,16")
    parser.add_argument("--seconds", type=number, default=20.0)
    parser.add_argument(
        "--plan-ahead",
        type=several(one_of(("off", "on"))),
        default="off",
        help="off, on, or both by turns: off,on",
    )
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--turns", type=whole(), default=1)
    parser.add_argument("--json", action="store_true", help="nothing but the JSON line")
    options = parser.parse_args()
    results = []
    for rows, _, ahead in product(options.rows, range(options.turns), options.plan_ahead):
        results.append(measure(load_model("toybox"), rows, options.seconds, ahead, options.clock))
        if not options.json:
            print(results[-1], flush=True)
    print(
        json.dumps(
            {
                "benchmark": "engine/host",
                "clock": options.clock,
                "device": platform.processor() or platform.machine(),
                "torch": torch.__version__,
                "results": results,
            }
        )
    )


if __name__ == "__main__":
    main()
