"""What the pages show: gathers events and samples, and makes the overview of this instant.

Runs on the event loop. Shapes are documented in docs/api.md. Not Prometheus: see metrics.py.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec

from onbeat.server.api.hub import EngineHub
from onbeat.server.api.measures import STAGES, Quantiles, Sent, Window, quantiles, ratio
from onbeat.server.api.session import Session
from onbeat.server.api.sessions import SessionManager
from onbeat.server.engine.messages import ChunkReady, EngineStats
from onbeat.server.vocabulary import prompt_text
from onbeat.webrtc.stats import Percentiles

TICK_SECONDS = 0.5
HISTORY_SECONDS = 3600
SHOWN_SESSIONS = 64
COPIES = ("copied_bytes", "copied_seconds", "exposed_seconds", "waited_seconds")

Overview = dict[str, Any]
Point = dict[str, float | int | None]


class Telemetry:
    """Windows of the last ten seconds, totals since the start, and the history of overviews."""

    def __init__(
        self, hub: EngineHub, sessions: SessionManager, on_first_frame: Callable[[float], None]
    ) -> None:
        self._hub = hub
        self._on_first_frame = on_first_frame
        self._sessions = sessions
        self._started = time.monotonic()
        self._windows = {name: Window() for name in STAGES}
        self._engine_windows = {name: Window() for name in ("step", "plan", "decode")}
        self._rows = Window()
        self._copied: Counter[str] = Counter()
        self._first_frames: deque[float] = deque(maxlen=200)
        self._first_seen: set[str] = set()
        self._due, self._on_time = Window(), Window()
        self.rejected: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        """Frames by cause."""
        self.frames_due = self.frames_on_time = 0
        self.job_counts: dict[str, int] = {}
        self.history: deque[dict[str, float | int | None]] = deque(
            maxlen=round(HISTORY_SECONDS / TICK_SECONDS)
        )
        self._latest: Overview | None = None
        self._encoded: bytes | None = None
        sessions.watchers.append(self._watch)

    # ---- what comes in -------------------------------------------------------------------------

    def _watch(self, what: str, session: Session, detail: Any) -> None:
        if what == "chunk":
            self._chunk(detail)
        elif what == "dropped":
            self._missed(detail.cause, session.ready.chunk_frames)
        elif what == "closed":
            self._first_seen.discard(session.id)

    def _chunk(self, event: ChunkReady) -> None:
        now = time.monotonic()
        for name in STAGES:
            self._windows[name].add(now, getattr(event.stages, name))
        if event.cause is not None:
            self._missed(event.cause, event.frames)

    def engine_stats(self, stats: EngineStats) -> None:
        """A report of the engine: each list is what happened since the last one."""
        now = time.monotonic()
        for stream in stats.streams:
            if (session := self._sessions.find(stream.stream_id)) is not None:
                session.level = stream.level_name
                session.input_age = stream.input.age if stream.input else None
        for rows in stats.batch_rows:
            self._rows.add(now, rows)
        for name in ("step", "plan", "decode"):
            for seconds in getattr(stats, f"{name}_seconds"):
                self._engine_windows[name].add(now, seconds)
        if stats.transfer is not None:
            for name in COPIES:
                self._copied[name] += getattr(stats.transfer, name)

    def sample(self, now: float) -> list[tuple[Session, Sent]]:
        """Asks every sender for its totals; what is new since the last time."""
        sampled = [(session, self._sample(session, now)) for session in self._sessions.all()]
        sent = [each for _, each in sampled]
        due, on_time = sum(s.due for s in sent), sum(s.on_time for s in sent)
        self._missed("encode", sum(s.encode_missed for s in sent))
        self.frames_due += due
        self.frames_on_time += on_time
        self._due.add(now, due)
        self._on_time.add(now, on_time)
        return sampled

    def _missed(self, cause: str, frames: int) -> None:
        if frames:
            self.missed[cause] += frames

    def _sample(self, session: Session, now: float) -> Sent:
        sent = session.meter.sampled(session.broadcast.stats(), now)
        first = session.meter.sender.first_frame_at
        if first is not None and session.first_offer is not None:
            if session.id not in self._first_seen:
                self._first_seen.add(session.id)
                seconds = max(0.0, first - session.first_offer)
                self._first_frames.append(seconds)
                self._on_first_frame(seconds)
        return sent

    # ---- what goes out -------------------------------------------------------------------------

    def tick(self, now: float) -> Overview:
        """Makes the overview of this instant, and keeps a point of it as history."""
        self._latest, self._encoded = self.overview(now), None
        self.history.append(point_of(self._latest))
        return self._latest

    def latest_json(self) -> bytes:
        """The latest overview as JSON, made once for all who ask: it is long with many sessions.
        Before the first tick, the one of now."""
        if self._latest is None:
            self._latest = self.overview(time.monotonic())
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self._latest)
        return self._encoded

    def overview(self, now: float) -> Overview:
        """The shape of GET /v1/overview."""
        return {
            "at": round(time.time(), 3),
            "uptime_s": round(now - self._started, 1),
            "engine": self._engine(),
            "live": self._live(now),
            "batch": self._batch(now),
            "stages_ms": self._stages(now),
            "first_frame_ms": quantiles(list(self._first_frames), scale=1000.0),
            "jobs": dict(self.job_counts),
            "rejected": dict(self.rejected),
            "sessions": [
                session_overview(session, now) for session in _shown(self._sessions.all())
            ],
        }

    def _engine(self) -> dict[str, Any]:
        ready, stats = self._hub.ready, self._hub.stats
        return {
            "state": self._hub.state,
            "pid": ready.pid if ready else None,
            "restarts": self._hub.restarts,
            "model": ready.model if ready else None,
            "capacity_streams": self._hub.capacity_streams,
            "calibrated_streams": ready.capacity_streams if ready else None,
            "costs": [cost.plain() for cost in stats.costs] if stats else [],
            "busy_ratio": stats.busy_ratio if stats else None,
            "utilisation": stats.utilisation if stats else None,
            "waiting": stats.waiting if stats else None,
            "pages_used": stats.pages_used if stats else None,
            "pages_total": stats.pages_total if stats else None,
            "slots_used": stats.slots_used if stats else None,
            "slots_total": stats.slots_total if stats else None,
            **self._transfer(),
        }

    def _transfer(self) -> dict[str, Any]:
        """Paused streams; copies of their pages since the server's start."""
        stats = self._hub.stats
        now = stats.transfer if stats else None
        copied = self._copied
        return {
            "paused_streams": now.places if now else None,
            "kv_host_bytes": now.host_bytes if now else None,
            "kv_host_bytes_total": now.host_bytes_total if now else None,
            "kv_transfer_bytes": round(copied["copied_bytes"]),
            "kv_transfer_ms": round(1000 * copied["copied_seconds"], 3),
            "kv_transfer_exposed_ms": round(1000 * copied["exposed_seconds"], 3),
            "kv_transfer_waited_ms": round(1000 * copied["waited_seconds"], 3),
        }

    def _live(self, now: float) -> dict[str, Any]:
        sessions = self._sessions.all()
        return {
            "sessions": len(sessions),
            "viewers": sum(len(session.viewers) for session in sessions),
            "frames_due": self.frames_due,
            "frames_on_time": self.frames_on_time,
            "on_time_ratio_10s": ratio(self._on_time.total(now), self._due.total(now)),
            "on_time_ratio": ratio(self.frames_on_time, self.frames_due),
            "frames_missed": {k: n for k, n in self.missed.items() if k != "paused"},
        }

    def _batch(self, now: float) -> dict[str, Any]:
        rows = self._rows.values(now)
        return {
            "rows_mean": round(sum(rows) / len(rows), 2) if rows else None,
            "rows_p50": quantiles(rows)["p50"],
            "rows_max": int(max(rows)) if rows else None,
            **{
                f"{name}_ms": window.milliseconds(now)
                for name, window in self._engine_windows.items()
            },
        }

    def _stages(self, now: float) -> dict[str, Quantiles]:
        sessions = self._sessions.all()
        made = {name: self._windows[name].milliseconds(now) for name in STAGES}
        return made | {
            "encode": _worst([_chunked(s, s.meter.sender.encode_ms) for s in sessions]),
            "send": _worst([_chunked(s, s.meter.sender.send_ms) for s in sessions]),
        }


def _shown(sessions: list[Session]) -> list[Session]:
    """As many as a page can take: those that are generated before those that rest."""
    return sorted(sessions, key=lambda session: session.paused)[:SHOWN_SESSIONS]


def point_of(overview: Overview) -> Point:
    """What of an overview is drawn over time."""
    live, engine, batch = overview["live"], overview["engine"], overview["batch"]
    return {
        "at": overview["at"],
        "on_time_ratio": live["on_time_ratio_10s"],
        "busy_ratio": engine["busy_ratio"],
        "step_ms_p50": batch["step_ms"]["p50"],
        "step_ms_p99": batch["step_ms"]["p99"],
        "rows_mean": batch["rows_mean"],
        "sessions": live["sessions"],
        "viewers": live["viewers"],
        "jobs_running": overview["jobs"].get("running"),
        "fps_sent": round(sum(each["fps_sent"] for each in overview["sessions"]), 2),
    }


def session_overview(session: Session, now: float) -> dict[str, Any]:
    """One session's entry of the overview."""
    return {
        "id": session.id,
        "prompt": prompt_text(session.prompt),
        "status": session.status,
        "chunk": session.meter.chunk,
        **_health(session, now),
        "chunks_by_steps": {str(n): c for n, c in sorted(session.meter.by_steps.items())},
        "stages_ms": session.meter.stage_medians(),
        "recent": list(session.meter.recent),
        "client": [viewer.stats for viewer in list(session.viewers.values())[:8]],
    }


def session_status(session: Session, engine_state: str, now: float) -> dict[str, Any]:
    """The message that viewers get once a second."""
    stages = session.meter.stage_medians()
    return {
        "type": "status",
        "status": session.status,
        **_health(session, now),
        **{f"{name}_ms": stages[name] for name in ("queue", "denoise", "decode", "encode")},
        "engine_state": engine_state,
    }


def _health(session: Session, now: float) -> dict[str, Any]:
    return {
        "fps_generated": session.meter.fps_generated(now),
        "fps_sent": round(session.meter.sender.fps_sent, 2),
        "on_time_ratio": session.meter.on_time_ratio(now),
        "steps": session.meter.steps,
        "quality": session.level,
        "queue_position": session.queued.position if session.queued else None,
        "estimated_wait_s": session.queued.seconds if session.queued else None,
        "slack_ms": session.meter.slack_ms,
        "dropped": session.meter.dropped_frames,
        "viewers": len(session.viewers),
        "resting": session.auto_paused,
        "recording": session.recording,
        "link": {"level": session.link.level, "verdict": session.link.verdict},
        "input": session.camera.view(session.input_age) if session.camera else None,
    }


def _chunked(session: Session, frame: Percentiles) -> Percentiles:
    """A time per picture as a time per chunk, like that of the other stages."""
    frames = session.ready.chunk_frames
    return Percentiles(
        p50=frame.p50 * frames, p95=frame.p95 * frames, p99=frame.p99 * frames, count=frame.count
    )


def _worst(all_sessions: list[Percentiles]) -> Quantiles:
    """Of several sessions, the highest of each percentile."""
    measured = [entry for entry in all_sessions if entry.count]
    if not measured:
        return quantiles([])
    return {
        name: round(max(getattr(entry, name) for entry in measured), 3)
        for name in ("p50", "p95", "p99")
    }
