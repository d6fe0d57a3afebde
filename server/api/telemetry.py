"""What the pages show: gathers events and samples, and makes the overview of this instant.

Runs on the event loop. Shapes are documented in docs/api.md. Not Prometheus: see metrics.py.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec

from onbeat.server.api.frames import SERVER_STAGES
from onbeat.server.api.gpu import GpuFigures
from onbeat.server.api.hub import EngineHub
from onbeat.server.api.latency import LatencyWindow
from onbeat.server.api.machine import CpuShares, Machine
from onbeat.server.api.measures import Sent, Window, efficiencies, quantiles, ratio
from onbeat.server.api.session import Session
from onbeat.server.api.sessions import SessionManager
from onbeat.server.api.tails import PLANNED
from onbeat.server.engine.messages import EngineStats
from onbeat.server.vocabulary import prompt_text

TICK_SECONDS = 0.5
HISTORY_SECONDS = 3600
SHOWN_SESSIONS = 64
LATE_BELOW = 0.98
"""Share of frames on time under which a server does not keep up."""
COPIES = ("copied_bytes", "copied_seconds", "exposed_seconds", "waited_seconds")

Overview = dict[str, Any]
Point = dict[str, float | int | None]


class Telemetry:
    """Windows of the last ten seconds, totals since the start, and the history of overviews."""

    def __init__(
        self,
        hub: EngineHub,
        sessions: SessionManager,
        on_first_frame: Callable[[float], None],
        on_admitted: Callable[[float], None],
    ) -> None:
        self._hub = hub
        self._on_first_frame, self._on_admitted = on_first_frame, on_admitted
        self._sessions = sessions
        self._started = time.monotonic()
        self.latency = LatencyWindow()
        self._machine = Machine()
        self.cpu: CpuShares | None = None
        """Of the last interval."""
        self.gpu: GpuFigures | None = None
        """None: there is none."""
        self.errors: dict[str, int] = {}
        self._admissions: deque[float] = deque(maxlen=200)
        self._admitted: set[str] = set()
        self._efficiency = Window()
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
            if detail.cause is not None:
                self._missed(detail.cause, detail.frames)
        elif what == "opened":
            self._opened(session)
        elif what == "viewed":
            self.latency.seen(detail, time.monotonic())
        elif what == "dropped":
            self._missed(detail.cause, session.ready.chunk_frames)
        elif what == "closed":
            self._first_seen.discard(session.id)
            self._admitted.discard(session.id)

    def _opened(self, session: Session) -> None:
        """The engine took it: for the first time, or again after it was replaced."""
        if session.id not in self._admitted:
            self._admitted.add(session.id)
            waited = max(0.0, time.monotonic() - session.created)
            self._admissions.append(waited)
            self._on_admitted(waited)

    def engine_stats(self, stats: EngineStats) -> None:
        """A report of the engine: each list is what happened since the last one."""
        now = time.monotonic()
        for stream in stats.streams:
            if (session := self._sessions.find(stream.stream_id)) is not None:
                session.level = stream.level_name
                session.input_age = stream.input.age if stream.input else None
        for rows in stats.batch_rows:
            self._rows.add(now, rows)
        for value in efficiencies(stats, self._hub.ready):
            self._efficiency.add(now, value)
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
        for each in sent:
            self.latency.sent(each.frames, now)
            self.latency.seen(each.seen, now)
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
        broadcast = session.broadcast
        sent = session.meter.sampled(broadcast.stats(), now, broadcast.frames())
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
        self.cpu = self._machine.look(self._engine_pid) or self.cpu
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
            "latency": self.latency.view(now, late=self._late(now)),
            "stages_ms": self.latency.stages(now),
            "first_frame_ms": quantiles(list(self._first_frames), scale=1000.0),
            "admission_ms": quantiles(list(self._admissions), scale=1000.0),
            "ladder": self._ladder(),
            "machine": machine_view(self.cpu, self.gpu),
            "errors": dict(self.errors),
            "jobs": dict(self.job_counts),
            "rejected": dict(self.rejected),
            "sessions": [
                session_overview(session, now) for session in _shown(self._sessions.all())
            ],
        }

    @property
    def _engine_pid(self) -> int | None:
        return self._hub.ready.pid if self._hub.ready else None

    def _late(self, now: float) -> bool:
        share = ratio(self._on_time.total(now), self._due.total(now))
        return share is not None and share < LATE_BELOW

    def _ladder(self) -> dict[str, int]:
        """Live sessions by their place on the quality ladder."""
        levels = [s.level for s in self._sessions.all() if s.level and not s.paused]
        return dict(sorted(Counter(levels).items()))

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
            "fps_target": sum(s.rate.asked for s in sessions if s.viewers and not s.paused),
            "frames_due": self.frames_due,
            "frames_on_time": self.frames_on_time,
            "on_time_ratio_10s": ratio(self._on_time.total(now), self._due.total(now)),
            "on_time_ratio": ratio(self.frames_on_time, self.frames_due),
            "frames_missed": {k: n for k, n in self.missed.items() if k != "paused"},
        }

    def _batch(self, now: float) -> dict[str, Any]:
        rows, gains = self._rows.values(now), self._efficiency.values(now)
        return {
            "efficiency": round(sum(gains) / len(gains), 3) if gains else None,
            "rows_mean": round(sum(rows) / len(rows), 2) if rows else None,
            "rows_p50": quantiles(rows)["p50"],
            "rows_max": int(max(rows)) if rows else None,
            **{
                f"{name}_ms": window.milliseconds(now)
                for name, window in self._engine_windows.items()
            },
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
        "fps_target": live["fps_target"],
        "fps_sent": round(sum(each["fps_sent"] for each in overview["sessions"]), 2),
        "latency_ms_p50": overview["latency"]["sent_ms"]["p50"],
        "latency_ms_p99": overview["latency"]["sent_ms"]["p99"],
        "shown_ms_p50": overview["latency"]["shown_ms"]["p50"],
        "pages_ratio": ratio(engine["pages_used"] or 0, engine["pages_total"] or 0),
        "waiting": engine["waiting"],
        "efficiency": batch["efficiency"],
        "others_ratio": overview["machine"]["others"],
    }


def machine_view(shares: CpuShares | None, gpu: GpuFigures | None = None) -> dict[str, Any]:
    """Shares of all cores; `taken`: other programs leave too little; `gpu`: only where one is."""
    view = {"gpu": gpu.view()} if gpu is not None else {}
    if shares is None:
        return {"front": None, "engine": None, "others": None, "taken": False} | view
    parts = {name: round(getattr(shares, name), 3) for name in ("front", "engine", "others")}
    return parts | {"taken": shares.taken} | view


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
        "fps": session.rate.asked,
        "client": [viewer.stats for viewer in list(session.viewers.values())[:8]],
    }


def session_detail(session: Session, now: float) -> dict[str, Any]:
    """One session's entry with its last chunks."""
    return session_overview(session, now) | {"recent": session.meter.chunks()}


def session_status(
    session: Session, engine_state: str, now: float, *, streams: int, taken: bool
) -> dict[str, Any]:
    """The message that viewers get once a second. `streams`: live streams and jobs that share the
    device; `taken`: other programs have the processor."""
    stages = session.meter.stage_medians()
    return {
        "type": "status",
        "status": session.status,
        **_health(session, now),
        **{f"{name}_ms": stages[name] for name in SERVER_STAGES if name not in PLANNED},
        "engine_state": engine_state,
        "sharing": streams,
        "machine_taken": taken,
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
