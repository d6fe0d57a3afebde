"""`onbeat bench streams`: live streams on the real engine, without a network, frames counted.

Streams join at different phases, the first seconds (windows filling) are not counted, and a frame
that should have been due in the counted time and was not there in time is missed, why ever.
What it is not: a simulation, or a measure of encoding and sending.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onbeat.models.spec import CausalModel, ModelSpec
from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.local import LocalEngine
from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    EngineDown,
    EngineReady,
    EngineStats,
    OpenStream,
    StreamEnded,
    StreamOpened,
    StreamRefused,
)
from onbeat.server.engine.settings import HEADROOM, EngineSettings
from onbeat.server.engine.trace import LONGEST_SECONDS

PROMPTS = (
    "a red ball bouncing over the sea",
    "a blue square at night",
    "a green ring in the snow",
    "a yellow star over the desert",
    "a purple heart in the clouds",
    "an orange triangle on a meadow",
)
JOIN_SECONDS = 0.05
"""Between two streams joining; not a divisor of a chunk, so that phases differ."""
WARM_CHUNKS = 2
"""Beyond a full window, before counting starts."""
START_TIMEOUT = 60.0


@dataclass(slots=True, kw_only=True)
class _Stream:
    """Chunks due in the counted time."""

    on_time: int = 0
    missed: int = 0
    steps: list[int] = field(default_factory=list)

    def ratio(self, due: int) -> float:
        return self.on_time / max(due, self.on_time + self.missed, 1)


@dataclass(slots=True, kw_only=True)
class _Count:
    """Everything that happened between `start` and `end` (monotonic seconds)."""

    start: float = float("inf")
    end: float = float("inf")
    streams: dict[str, _Stream] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    reason: str = ""
    drops: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    stats: list[EngineStats] = field(default_factory=list)

    def counts(self, instant: float) -> bool:
        return self.start <= instant < self.end


def run_streams(
    model: CausalModel,
    *,
    streams: int,
    seconds: float,
    policy: str = "edf-s",
    admission: bool = True,
    anytime: bool = True,
    headroom: float = HEADROOM,
    max_rows: int = 24,
    begin: Callable[[], None] = lambda: None,
    trace: Path | None = None,
) -> dict[str, Any]:
    """Offers `streams` live streams and counts frames on time over `seconds`. `begin` is called
    when the engine is warm, before the first stream; `trace` is a file for what ran in the last of
    the counted seconds.

    Returns plain JSON values. Raises RuntimeError if the engine fails or leaks a page or a slot.
    """
    settings = EngineSettings(
        policy=policy,
        admission=admission,
        anytime=anytime,
        max_rows=max_rows,
        max_streams=max(64, streams),
        headroom=headroom,
    )
    engine = LocalEngine(model, settings, slots=max(64, 4 * streams))
    engine.start()
    try:
        ready = _wait_ready(engine)
        begin()
        count = _Count()
        _offer(engine, count, streams)
        spec = model.spec
        warm = (spec.window_chunks + WARM_CHUNKS) * spec.chunk_seconds
        count.start = time.monotonic() + warm
        count.end = count.start + seconds
        while time.monotonic() < count.end + 0.1:
            _take(engine, count, 0.05)
        if trace is not None:
            trace.write_bytes(engine.trace(min(seconds, LONGEST_SECONDS)))
    finally:
        engine.close()
    _check(engine)
    return _result(count, ready, spec, settings, streams, seconds)


def _wait_ready(engine: LocalEngine) -> EngineReady:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        event = engine.receive(0.5)
        if isinstance(event, EngineReady):
            return event
        if isinstance(event, EngineDown):
            raise RuntimeError(event.reason)
    raise RuntimeError(f"the engine was not ready in {START_TIMEOUT:.0f} s")


def _offer(engine: LocalEngine, count: _Count, streams: int) -> None:
    for i in range(streams):
        prompt = PROMPTS[i % len(PROMPTS)]
        engine.send(OpenStream(stream_id=f"stream_{i}", kind="live", prompt=prompt, seed=i))
        until = time.monotonic() + JOIN_SECONDS * (0.5 + (0.618 * i) % 1.0)
        while (left := until - time.monotonic()) > 0:
            _take(engine, count, left)


def _take(engine: LocalEngine, count: _Count, timeout: float) -> None:
    match engine.receive(timeout):
        case StreamOpened(stream_id=stream_id):
            count.streams[stream_id] = _Stream()
        case StreamRefused(code=code, reason=reason):
            count.refused[code] += 1
            count.reason = reason
        case ChunkReady() as event:
            engine.take(event)
            if count.counts(event.playout_at):
                stream = count.streams[event.stream_id]
                stream.on_time += event.on_time
                stream.missed += not event.on_time
                count.late.update([event.cause] if event.cause else [])
                stream.steps.append(event.steps)
        case ChunkDropped(stream_id=stream_id, cause=cause, playout_at=playout_at):
            if count.counts(playout_at):
                count.streams[stream_id].missed += 1
                count.drops[cause] += 1
        case EngineStats() as event:
            if count.counts(event.at):
                count.stats.append(event)
        case StreamEnded(stream_id=stream_id, error=error):
            count.failures.append(f"{stream_id}: {error}")
        case EngineDown(reason=reason):
            raise RuntimeError(reason)
        case _:
            pass


def _check(engine: LocalEngine) -> None:
    assert engine.engine is not None
    engine.engine.check_integrity()
    if engine.engine.pool.used:
        raise RuntimeError(f"{engine.engine.pool.used} pages leaked")


def _result(
    count: _Count,
    ready: EngineReady,
    spec: ModelSpec,
    settings: EngineSettings,
    offered: int,
    seconds: float,
) -> dict[str, Any]:
    due = int(seconds / spec.chunk_seconds)
    ratios = [s.ratio(due) for s in count.streams.values()]
    steps = [n for s in count.streams.values() for n in s.steps]
    rows = [n for s in count.stats for n in s.batch_rows]
    calibrated = CostModel({n: ms / 1e3 for n, ms in ready.step_ms.items()})
    predicted = [1e3 * calibrated.median(n) for n in rows]
    took = [1e3 * t for s in count.stats for t in s.step_seconds]
    return {
        "benchmark": "streams",
        "model": spec.name,
        "policy": settings.policy,
        "admission": settings.admission,
        "headroom": settings.headroom,
        "seconds": seconds,
        "on_time_frame_ratio": round(sum(ratios) / len(ratios), 4) if ratios else 0.0,
        "worst_stream_ratio": round(min(ratios), 4) if ratios else 0.0,
        "streams_offered": offered,
        "streams_admitted": len(count.streams),
        "streams_clean": sum(r >= 0.99 for r in ratios),
        "capacity_streams": ready.capacity_streams,
        "refused": {"count": sum(count.refused.values()), **count.refused, "reason": count.reason},
        "drops": dict(count.drops),
        "late": dict(count.late),
        "late_chunks": sum(s.missed for s in count.streams.values()) - sum(count.drops.values()),
        "missed_by_stream": sorted(s.missed for s in count.streams.values()),
        "failures": count.failures[:5],
        "steps_mean": _mean(steps),
        "batch_rows": {"mean": _mean(rows), "p50": _at(rows, 0.5), "max": max(rows, default=0)},
        "step_ms": {
            **_percentiles([t for s in count.stats for t in s.step_seconds]),
            "predicted_mean": _mean(predicted),
            "slower": _at([t / p for t, p in zip(took, predicted, strict=True)], 0.5) or 1.0,
            "calibrated": {str(n): round(t, 2) for n, t in ready.step_ms.items()},
        },
        "costs": [cost.plain() for cost in count.stats[-1].costs] if count.stats else [],
        "plan_ms": _percentiles([t for s in count.stats for t in s.plan_seconds]),
        "decode_ms": {
            **_percentiles([t for s in count.stats for t in s.decode_seconds]),
            "calibrated": {str(n): round(t, 2) for n, t in ready.decode_ms.items()},
        },
        "busy_ratio": _mean([s.busy_ratio for s in count.stats]),
        "utilisation": _mean([s.utilisation for s in count.stats]),
    }


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 3) if values else 0.0


def _at(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds."""
    return {
        f"p{int(100 * share)}": round(1e3 * _at(seconds, share), 3) for share in (0.5, 0.95, 0.99)
    }
