"""Rolling measurements: windows with percentiles, and the meter of one session.

All instants are seconds on the monotonic clock, all reported durations milliseconds. Numbers are
None where nothing was measured. What it is not: the Prometheus metrics (metrics.py).
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from onbeat.server.api.frames import (
    ENGINE_STAGES,
    FRAME_STAGES,
    FRONT_STAGES,
    FrameRecord,
    SessionFrames,
)
from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    EngineReady,
    EngineStats,
)
from onbeat.webrtc.frames import FrameTimes
from onbeat.webrtc.stats import BroadcastStats

WINDOW_SECONDS = 10.0
FPS_SECONDS = 4.0
MAX_SAMPLES = 8192
RECENT_CHUNKS = 60
Quantiles = dict[str, float | None]


class Window:
    """Values of the last `seconds` seconds, at most MAX_SAMPLES."""

    def __init__(self, seconds: float = WINDOW_SECONDS) -> None:
        self._seconds = seconds
        self._samples: deque[tuple[float, float]] = deque(maxlen=MAX_SAMPLES)

    def add(self, now: float, value: float) -> None:
        self._samples.append((now, value))

    def values(self, now: float) -> list[float]:
        """What is still inside the window."""
        while self._samples and self._samples[0][0] < now - self._seconds:
            self._samples.popleft()
        return [value for _, value in self._samples]

    def total(self, now: float) -> float:
        return float(sum(self.values(now)))

    def milliseconds(self, now: float) -> Quantiles:
        """p50, p95 and p99 of a window of seconds, in milliseconds."""
        return quantiles(self.values(now), scale=1000.0)


def quantiles(values: list[float], *, scale: float = 1.0) -> Quantiles:
    """p50, p95, p99, scaled and rounded."""
    if not values:
        return {"p50": None, "p95": None, "p99": None}
    ordered = sorted(values)
    found = {f"p{share}": _at(ordered, share / 100) for share in (50, 95, 99)}
    return {name: round(scale * value, 3) for name, value in found.items()}


def _at(ordered: list[float], share: float) -> float:
    """Between the two values that enclose the share. Plain Python: the event loop runs this."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def ratio(part: float, whole: float) -> float | None:
    """part / whole, None when nothing was due."""
    return round(part / whole, 5) if whole else None


def efficiencies(stats: EngineStats, ready: EngineReady | None) -> list[float]:
    """How much more each forward of a report got done than as many of one row would have in its
    time: by what one row takes now, or took when the engine started if it does not tell."""
    one = stats.row_seconds or (ready.step_ms.get(1, 0.0) / 1e3 if ready else 0.0)
    rows = zip(stats.batch_rows, stats.step_seconds, strict=False)
    return [n * one / seconds for n, seconds in rows if one and seconds > 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What the sender did since it was last asked, in frames."""

    due: int
    on_time: int
    sent: int
    dropped: dict[str, int]
    encode_missed: int
    """Due, not sent in time, and the engine had had them in time."""
    silent_s: float = 0.0
    """Sound that was not there when it was due."""
    frames: tuple[FrameRecord, ...] = ()
    """The records of those that were sent."""
    seen: tuple[FrameRecord, ...] = ()
    """Of these, with what a viewer had said of them before."""


class SessionMeter:
    """What one session's chunks and its sender say about its health."""

    def __init__(self) -> None:
        self.chunk: int | None = None
        self.steps: int | None = None
        self.by_steps: Counter[int] = Counter()
        """Chunks by the steps that they had."""
        self.slack_ms: float | None = None
        self.dropped_frames = 0
        """Frames of chunks that never came, and frames that the sender dropped."""
        self.sender = BroadcastStats()
        self.frames = SessionFrames()
        self.recent: deque[dict[str, Any]] = deque(maxlen=RECENT_CHUNKS)
        self._made_due, self._made_on_time = Window(), Window()
        self._sent_due, self._sent_on_time = Window(), Window()
        self._made = Window(FPS_SECONDS)
        self._since: float | None = None
        self._late = (0, 0)
        """Frames of late chunks since the last sample, and between the two before it."""

    def delivered(self, event: ChunkReady, now: float) -> None:
        """A chunk arrived from the engine."""
        self.frames.arrived(event, now)
        self._made_due.add(now, event.frames)
        self._made_on_time.add(now, event.frames if event.on_time else 0)
        self._made.add(now, event.frames)
        self._late = (self._late[0] + (0 if event.on_time else event.frames), self._late[1])
        self._since = now if self._since is None else self._since
        self.chunk, self.steps = event.chunk, event.steps
        self.by_steps[event.steps] += 1
        self.slack_ms = round(1000 * (event.playout_at - event.ready_at), 1)
        self.recent.append(
            {"chunk": event.chunk, "steps": event.steps, "on_time": event.on_time}
            | {name: round(1000 * getattr(event.stages, name), 2) for name in ENGINE_STAGES}
        )

    def dropped(self, event: ChunkDropped, frames: int, now: float) -> None:
        """A chunk will never come. Chunks of a paused stream were not due."""
        if event.cause != "paused":
            self._made_due.add(now, frames)
            self.dropped_frames += frames

    def sampled(self, stats: BroadcastStats, now: float, frames: Sequence[FrameTimes] = ()) -> Sent:
        """Takes the sender's totals; what is new since the last time."""
        old, self.sender = self.sender, stats
        dropped = {
            cause: count - old.frames_dropped.get(cause, 0)
            for cause, count in stats.frames_dropped.items()
        }
        sent = Sent(
            due=stats.frames_due - old.frames_due,
            on_time=stats.frames_on_time - old.frames_on_time,
            sent=stats.frames_sent - old.frames_sent,
            dropped=dropped,
            encode_missed=self._encode_missed(old, stats, dropped.get("skipped", 0)),
            silent_s=stats.audio_underrun_s - old.audio_underrun_s,
            frames=tuple(self.frames.sent(frames)),
            seen=tuple(self.frames.take_matched()),
        )
        self._sent_due.add(now, sent.due)
        self._sent_on_time.add(now, sent.on_time)
        self.dropped_frames += sum(n for cause, n in dropped.items() if cause != "skipped")
        return sent

    def _encode_missed(self, old: BroadcastStats, new: BroadcastStats, skipped: int) -> int:
        """Frames not sent in time, but for those of chunks that never came or came late. A late
        chunk's frames may count at the sender one sample after it came."""
        due, on_time = new.frames_due - old.frames_due, new.frames_on_time - old.frames_on_time
        missed = due - on_time - skipped - sum(self._late)
        self._late = (0, self._late[0])
        return max(0, missed)

    def on_time_ratio(self, now: float) -> float | None:
        """At the sender over the last 10 s; without viewers, as the engine delivered."""
        due = self._sent_due.total(now)
        if due:
            return ratio(self._sent_on_time.total(now), due)
        return ratio(self._made_on_time.total(now), self._made_due.total(now))

    def fps_generated(self, now: float) -> float | None:
        """Frames per second over the last seconds."""
        if self._since is None:
            return None
        span = min(FPS_SECONDS, max(1.0, now - self._since))
        return round(self._made.total(now) / span, 2)

    def stage_medians(self) -> dict[str, float | None]:
        """Median milliseconds per stage: the engine's over the recent chunks, the others' over the
        recent frames."""
        engine = {name: _middle([entry[name] for entry in self.recent]) for name in ENGINE_STAGES}
        recent = list(self.frames.recent)
        front = {
            name: _middle([1e3 * record.stages[name] for record in recent]) for name in FRONT_STAGES
        }
        return engine | front

    def chunks(self) -> list[dict[str, Any]]:
        """The recent chunks with what became of their pictures: of each stage the longest."""
        return [entry | self._pictures(entry["chunk"]) for entry in self.recent]

    def _pictures(self, chunk: int) -> dict[str, float | None]:
        records = self.frames.by_chunk(chunk)
        return {
            name: _longest([r.stages[name] for r in records if name in r.stages])
            for name in FRAME_STAGES
        }


def _middle(values: list[float]) -> float | None:
    return round(median(values), 2) if values else None


def _longest(seconds: list[float]) -> float | None:
    return round(1e3 * max(seconds), 2) if seconds else None
