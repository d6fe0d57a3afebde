"""Does anybody notice when a stream recaches its window, one joins with a clip, and one just joins?

N live streams run on the real engine. The first half of the time nothing happens: the baseline of
the same run. In the second half a stream switches its prompt with a recache, another opens with a
reference clip, a third simply joins. Counts the others' chunks that were late or dropped, and the
largest tick of each half. Prints one JSON line.

    python benchmarks/engine/switch.py --streams 12 --seconds 24 --json
"""

import argparse
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onbeat.models.registry import load_model
from onbeat.models.spec import CausalModel, ModelSpec
from onbeat.server.cli.flags import number, whole
from onbeat.server.engine.bench import PROMPTS
from onbeat.server.engine.local import LocalEngine
from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    Command,
    ControlApplied,
    ControlStream,
    EngineDown,
    EngineReady,
    EngineStats,
    OpenStream,
    StreamEnded,
    StreamRefused,
)
from onbeat.server.engine.reference import pack_reference
from onbeat.server.engine.settings import EngineSettings

WARM_SECONDS = 5.0
CLIP_SECONDS = 5
SWITCHED, CLIP, JOINED = "stream_0", "clip", "joined"


@dataclass(slots=True)
class Half:
    """What was due between `start` and `end` (monotonic seconds)."""

    start: float
    end: float
    on_time: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    ticks: list[tuple[float, int]] = field(default_factory=list)

    def holds(self, instant: float) -> bool:
        return self.start <= instant < self.end

    def figures(self, names: list[str]) -> dict[str, Any]:
        seconds, rows = max(self.ticks, default=(0.0, 0))
        return {
            "chunks_on_time": sum(self.on_time[n] for n in names),
            "chunks_late": sum(self.late[n] for n in names),
            "chunks_dropped": sum(self.dropped[n] for n in names),
            "largest_tick_ms": round(1e3 * seconds, 1),
            "largest_tick_rows": rows,
        }


def clip(spec: ModelSpec) -> bytes:
    """Five seconds of a square that moves over a grey ground."""
    count = CLIP_SECONDS * spec.fps
    frames = np.full((count, spec.height, spec.width, 3), 120, np.uint8)
    side = spec.width // 4
    for i in range(count):
        at = (2 * i) % (spec.width - side)
        frames[i, side : 2 * side, at : at + side] = (220, 40, 40)
    sound = np.zeros(CLIP_SECONDS * spec.sample_rate, np.int16)
    return pack_reference(frames, sound, fps=spec.fps, sample_rate=spec.sample_rate)


def run(model: CausalModel, streams: int, seconds: float, *, admission: bool) -> dict[str, Any]:
    engine = LocalEngine(model, EngineSettings(admission=admission), slots=max(64, 4 * streams))
    engine.start()
    try:
        while not isinstance(event := engine.receive(120.0), EngineReady):
            if event is None or isinstance(event, EngineDown):
                raise RuntimeError(f"the engine did not start: {event}")
        result = _halves(engine, model.spec, streams, seconds)
    finally:
        engine.close()
    assert engine.engine is not None
    engine.engine.check_integrity()
    return result


def _halves(engine: LocalEngine, spec: ModelSpec, streams: int, seconds: float) -> dict[str, Any]:
    reference, failures, applied = clip(spec), Counter[str](), Counter[str]()
    for i in range(streams):
        prompt = PROMPTS[i % len(PROMPTS)]
        engine.send(OpenStream(stream_id=f"stream_{i}", kind="live", prompt=prompt, seed=i))
    start = time.monotonic() + WARM_SECONDS
    middle, end = start + seconds / 2, start + seconds
    quiet, busy = Half(start, middle), Half(middle, end)
    events: list[tuple[float, Command]] = [
        (
            middle + 0.1 * seconds / 2,
            ControlStream(
                stream_id=SWITCHED, revision=1, prompt="a green star", transition="recache"
            ),
        ),
        (
            middle + 0.35 * seconds / 2,
            OpenStream(
                stream_id=CLIP, kind="live", prompt="a red square", seed=5, reference=reference
            ),
        ),
        (
            middle + 0.65 * seconds / 2,
            OpenStream(stream_id=JOINED, kind="live", prompt="a blue ring", seed=6),
        ),
    ]
    while time.monotonic() < end + 0.3:
        while events and events[0][0] <= time.monotonic():
            engine.send(events.pop(0)[1])
        _take(engine, (quiet, busy), failures, applied)
    others = [f"stream_{i}" for i in range(1, streams)]
    before, during = quiet.figures(others), busy.figures(others)
    return {
        "benchmark": "switch",
        "model": spec.name,
        "streams": streams,
        "seconds": seconds,
        "others_before": before,
        "others_during": during,
        "largest_tick_ratio": _ratio(during["largest_tick_ms"], before["largest_tick_ms"]),
        "switched": busy.figures([SWITCHED]) | {"taken_up": applied[SWITCHED]},
        "with_clip": busy.figures([CLIP]),
        "joined": busy.figures([JOINED]),
        "failures": dict(failures),
    }


def _take(
    engine: LocalEngine, halves: tuple[Half, Half], failures: Counter[str], applied: Counter[str]
) -> None:
    match engine.receive(0.02):
        case ChunkReady() as event:
            engine.take(event)
            for half in halves:
                if half.holds(event.playout_at):
                    (half.on_time if event.on_time else half.late)[event.stream_id] += 1
        case ChunkDropped(stream_id=stream_id, playout_at=playout_at):
            for half in halves:
                half.dropped[stream_id] += half.holds(playout_at)
        case EngineStats() as event:
            for half in halves:
                if half.holds(event.at):
                    half.ticks += zip(event.step_seconds, event.batch_rows, strict=True)
        case ControlApplied(stream_id=stream_id):
            applied[stream_id] += 1
        case StreamRefused(stream_id=stream_id, reason=reason):
            failures[f"{stream_id}: {reason}"] += 1
        case StreamEnded(stream_id=stream_id, error=error):
            failures[f"{stream_id}: {error}"] += 1
        case EngineDown(reason=reason):
            raise RuntimeError(reason)
        case _:
            pass


def _ratio(a: float, b: float) -> float | None:
    return round(a / b, 2) if b else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=whole(), default=12)
    parser.add_argument("--seconds", type=number, default=24.0, help="counted, after a warm-up")
    parser.add_argument("--admission", action="store_true", help="refuse what may not fit")
    parser.add_argument("--json", action="store_true", help="one line of JSON alone")
    options = parser.parse_args()
    result = run(
        load_model("toybox"), options.streams, options.seconds, admission=options.admission
    )
    print(json.dumps(result, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
