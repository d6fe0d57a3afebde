"""What recording a trace costs: ticks of the real engine with the ring on and off, in one run.

On and off take turns every half second, streams and model stay the same; ticks with equally many
rows are compared. Baseline: the ring off. Prints one JSON line last.
Run: python benchmarks/engine/tracing.py [--streams 12] [--seconds 40].
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from onbeat.models.registry import load_model
from onbeat.server.cli.flags import number, whole
from onbeat.server.engine.assemble import make_engine
from onbeat.server.engine.engine import Engine
from onbeat.server.engine.messages import ChunkReady, Event, OpenStream, ReleaseSlot
from onbeat.server.engine.perfetto import chrome_trace
from onbeat.server.engine.scheduler import Plan
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.slots import MemorySlots, slot_bytes
from onbeat.server.engine.trace import Trace

TURN_SECONDS = 0.5
Ticks = dict[tuple[int, bool], list[float]]
"""Seconds of ticks by rows, and whether the ring was on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=whole(), default=12)
    parser.add_argument("--seconds", type=number, default=40.0)
    options = parser.parse_args()
    model = load_model("toybox")
    slots = MemorySlots(slots=128, slot_bytes=slot_bytes(model.spec))
    events: list[Event] = []
    engine = make_engine(model, EngineSettings(admission=False), slots, events.append)
    for i in range(options.streams):
        engine.submit(OpenStream(stream_id=f"stream {i}", kind="live", prompt="a ball", seed=i))
    ticks = run(engine, events, options.seconds)
    records = engine.trace.since(time.monotonic() - 10.0)
    started = time.perf_counter()
    data = chrome_trace(records)
    drawing = time.perf_counter() - started
    figures = report(ticks) | file_size(records, data, drawing) | record_us(engine)
    engine.close()
    print(json.dumps(figures))


def run(engine: Engine, events: list[Event], seconds: float) -> Ticks:
    ticks: Ticks = defaultdict(list)
    started = time.perf_counter()
    while (at := time.perf_counter() - started) < seconds:
        engine.trace.on = int(at / TURN_SECONDS) % 2 == 0
        before = len(engine.interval.rows)
        began = time.perf_counter()
        busy = engine.tick()
        took = time.perf_counter() - began
        if busy and len(engine.interval.rows) > before:
            ticks[int(engine.interval.rows[-1]), engine.trace.on].append(took)
        if not busy:
            time.sleep(min(max(engine.wake_at - time.monotonic(), 0.0), 0.005))
        for event in events:
            if isinstance(event, ChunkReady):
                engine.submit(ReleaseSlot(slot=event.slot))
        events.clear()
    return ticks


def report(ticks: Ticks) -> dict[str, object]:
    """Of row counts that both have often; the ratio of all of them by their number of ticks, None
    if no count was seen often enough with both."""
    rows = sorted(n for n, on in list(ticks) if on and min(map(len, both(ticks, n))) >= 20)
    ratios = {n: median(both(ticks, n)[0]) / median(both(ticks, n)[1]) for n in rows}
    counts = {n: sum(map(len, both(ticks, n))) for n in rows}
    total = sum(ratios[n] * counts[n] for n in rows) / sum(counts.values()) if rows else None
    return {
        "benchmark": "tracing",
        "tick_ratio_on_over_off": None if total is None else round(total, 4),
        "by_rows": {str(n): {"ratio": round(ratios[n], 4), "ticks": counts[n]} for n in rows},
    }


def both(ticks: Ticks, rows: int) -> tuple[list[float], list[float]]:
    return ticks[rows, True], ticks[rows, False]


def record_us(engine: Engine, calls: int = 2000) -> dict[str, object]:
    """Microseconds of the records of one tick by themselves: its plan and its forward."""
    streams = list(engine.roster.streams.values())
    candidates = engine._candidates(streams)
    rows = [s for s in streams if s.state is not None]
    others = [s for s in streams if s.state is None]
    plan = Plan(rows=tuple(s.id for s in rows) or ("none",))
    trace, times = Trace(), []
    for _ in range(calls):
        began = time.perf_counter()
        trace.planned(0.0, 1.0, candidates, plan, pages=1, row=0.01)
        trace.forward(0.0, 1.0, rows, others)
        times.append(time.perf_counter() - began)
    return {"rows": len(streams), "record_us": round(1e6 * median(times), 2)}


def file_size(records: Sequence[object], data: bytes, seconds: float) -> dict[str, object]:
    return {
        "records_in_10_s": len(records),
        "file_bytes": len(data),
        "drawing_ms": round(1e3 * seconds, 1),
    }


if __name__ == "__main__":
    main()
