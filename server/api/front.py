"""Everything a running server has, in one object, and its beating: start, tick, stop.

Routes reach it by the `FrontDep` dependency. What it is not: any route, or any policy of its parts.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlalchemy.exc import SQLAlchemyError

from onbeat.server.api.gpu import Gpu
from onbeat.server.api.hub import EngineHub
from onbeat.server.api.media import Media
from onbeat.server.api.memory import Trimmer, give_back
from onbeat.server.api.metrics import Metrics
from onbeat.server.api.publishers import Publishers
from onbeat.server.api.recordings import Recordings
from onbeat.server.api.session import Session
from onbeat.server.api.sessions import SessionManager
from onbeat.server.api.spans import Spans
from onbeat.server.api.system_metrics import LogCounter
from onbeat.server.api.telemetry import TICK_SECONDS, Telemetry, session_status
from onbeat.server.api.traces import Traces
from onbeat.server.api.video_shape import view
from onbeat.server.api.viewers import Viewers
from onbeat.server.api.webhooks import Deliverer, load_secret
from onbeat.server.config import Settings
from onbeat.server.engine.client import ChunkPayload
from onbeat.server.engine.messages import EngineDown, EngineReady, EngineStats, Event, TraceReply
from onbeat.server.jobs.job import Job
from onbeat.server.jobs.places import open_artifacts
from onbeat.server.jobs.store import JobStore
from onbeat.server.jobs.worker import JobWorker
from onbeat.server.launch import database_of
from onbeat.server.webhook_settings import parse_networks

log = logging.getLogger("onbeat.api")

STATUS_TICKS = 2
"""Viewers get a status message every so many ticks: once a second."""
JOB_TICKS = 2
THREADS = 32
"""For work that waits, most of it for a disk: writes of jobs that wait together share one wait, and
asyncio's own few threads (cores + 4) would be that many writes at most."""


class Front:
    """Made on the event loop. `start` before the first request, `close` after the last."""

    def __init__(self, settings: Settings, hub: EngineHub, media: Media) -> None:
        self.settings = settings
        self.hub = hub
        self.media = media
        self.metrics = Metrics()
        self.sessions = SessionManager(settings, hub, media, self._refused)
        self.publishers = Publishers(media)
        self.viewers = Viewers(
            self.sessions, media, self.publishers, settings.max_viewers, self._refused
        )
        self.artifacts = open_artifacts(settings)
        self.recordings = Recordings(settings, self.sessions, self.artifacts)
        self.telemetry = Telemetry(
            hub,
            self.sessions,
            self.metrics.first_frame.observe,
            self.metrics.admission.observe,
        )
        self._log_counter = LogCounter(self.metrics.system)
        self.traces = Traces(hub)
        self.spans = Spans() if settings.otlp_endpoint else None
        self._trimmer = Trimmer()
        self._gpu = Gpu()
        self.store = JobStore(database_of(settings), lease_seconds=settings.lease_seconds)
        self.worker = JobWorker(
            self.store,
            self.artifacts,
            hub,
            slots=settings.max_jobs_running,
            started=self._job_started,
            finished=self._job_finished,
        )
        self.networks = parse_networks(settings.webhook_networks)
        self.deliverer = Deliverer(
            self.store,
            load_secret(settings.webhook_secret, settings.data_dir),
            lambda job: view(job, None).model_dump(),
            networks=self.networks,
            outcome=self.metrics.webhook,
        )
        self.started_at = int(time.time())
        self.ticked = asyncio.Condition()
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(THREADS, "work"))
        self._beat: asyncio.Task[None] | None = None
        self.sessions.watchers.append(self._count)

    async def start(self) -> None:
        logging.getLogger("onbeat").addHandler(self._log_counter)
        self.hub.listen(self._hear)
        self.hub.start()
        await asyncio.to_thread(self.worker.start)
        self.artifacts.start()
        self.recordings.start()
        self.deliverer.start()
        self._beat = asyncio.create_task(self._beating(), name="beat")

    async def close(self) -> None:
        """Ends sessions, jobs, engine and media, in this order."""
        if self._beat is not None:
            self._beat.cancel()
            await asyncio.gather(self._beat, return_exceptions=True)
        await self.deliverer.close()
        await self.recordings.close()
        await self.sessions.close_all()
        await asyncio.to_thread(self.worker.close)
        await asyncio.to_thread(self.artifacts.close)
        await asyncio.to_thread(self.hub.close)
        self.store.close()
        self._gpu.close()
        await self.media.close()
        logging.getLogger("onbeat").removeHandler(self._log_counter)

    # ---- the beat ------------------------------------------------------------------------------

    async def _beating(self) -> None:
        count = 0
        while True:
            try:
                await self.beat(count)
            except Exception:  # one bad beat must not end all later ones
                log.exception("a beat failed")
            count += 1
            await asyncio.sleep(TICK_SECONDS)

    async def beat(self, count: int) -> None:
        """Sweeps the sessions, samples the senders, makes the overview, tells the viewers."""
        now = time.monotonic()
        await self.sessions.sweep(now)
        if count % JOB_TICKS == 0:
            try:
                await self._count_jobs()
            except (OSError, SQLAlchemyError):  # its trouble is not that of the viewers' numbers
                log.exception("jobs and files cannot be counted")
            await self._ask_gpu()
        for session, sent in self.telemetry.sample(now):
            self.metrics.sent(sent)
            if self.spans is not None:
                self.spans.frames(session, sent.frames)
            if sent.encode_missed:
                self.traces.late(session.id, sent.encode_missed)
        self.telemetry.errors = self._errors()
        self.telemetry.tick(now)
        if self.telemetry.cpu is not None:
            self.metrics.system.sampled(self.telemetry.cpu)
        if self._trimmer.due(sum(len(each.viewers) for each in self.sessions.all()), now):
            await asyncio.to_thread(give_back)
        if count % STATUS_TICKS == 0:
            self._tell_viewers(now)
        async with self.ticked:
            self.ticked.notify_all()

    def _tell_viewers(self, now: float) -> None:
        for session, status in self.statuses(self.sessions.all(), now):
            session.announce(status)

    def statuses(
        self, sessions: Sequence[Session], now: float
    ) -> list[tuple[Session, dict[str, Any]]]:
        """What viewers of these sessions are told of them."""
        cpu = self.telemetry.cpu
        running = sum(session.status == "live" for session in self.sessions.all())
        streams = running + self.telemetry.job_counts.get("running", 0)
        taken = cpu is not None and cpu.taken
        return [
            (each, session_status(each, self.hub.state, now, streams=streams, taken=taken))
            for each in sessions
        ]

    def _errors(self) -> dict[str, int]:
        """What went wrong since the start."""
        counts = self.metrics.system.counts
        return {
            "answers_5xx": counts["5xx"],
            "answers_4xx": counts["4xx"],
            "logged": counts["error"],
            "warned": counts["warning"],
            "engine_restarts": self.hub.restarts,
            "jobs_failed": self.telemetry.job_counts.get("failed", 0),
        }

    async def _count_jobs(self) -> None:
        counts = await asyncio.to_thread(self.store.counts)
        counts["running"] = counts.pop("in_progress")
        self.telemetry.job_counts = counts
        self.metrics.recordings(
            self.recordings.active, await asyncio.to_thread(self.recordings.store.size)
        )
        self.metrics.artifact_bytes.set(await asyncio.to_thread(self.artifacts.size))

    async def _ask_gpu(self) -> None:
        self.telemetry.gpu = await asyncio.to_thread(self._gpu.look)
        if self.telemetry.gpu is not None:
            self.metrics.gpu.seen(self.telemetry.gpu)

    def _refused(self, code: str) -> None:
        self.telemetry.rejected[code] += 1
        self.metrics.rejected(code)

    def _job_finished(self, outcome: str, seconds: float) -> None:
        self.metrics.job_finished(outcome, seconds)
        if self.spans is not None:
            self.spans.job(outcome, seconds)

    def _job_started(self, job: Job) -> None:
        self.metrics.job_started(job.waited)

    # ---- what the engine says ------------------------------------------------------------------

    def _hear(self, event: Event, _payload: ChunkPayload | None) -> None:
        """On the reader thread."""
        match event:
            case EngineReady():
                self.metrics.model(event)
            case EngineDown(restarting=True):
                self.metrics.engine_restarted()
            case TraceReply():
                self.traces.answered(event)
            case EngineStats():
                self.metrics.engine_stats(event, self.hub.ready)
                if not self._loop.is_closed():
                    self._loop.call_soon_threadsafe(self.telemetry.engine_stats, event)

    def _count(self, what: str, session: Session, detail: Any) -> None:
        match what:
            case "chunk":
                self.metrics.chunk(detail)
                self.traces.arrived(session.id, detail)
            case "closed" if self.spans is not None:
                self.spans.session(session, detail)
            case "viewed":
                self.metrics.frames.seen(detail)
            case "reported":
                self.metrics.frames.reported(*detail)
            case "dropped":
                self.metrics.chunk_dropped(detail, session.ready.chunk_frames)
            case "applied":
                asked = session.asked_at(detail.revision)
                if asked is not None:
                    self.metrics.photon.observe(max(0.0, detail.playout_at - asked))


async def _front(request: Request) -> Front:
    """Not a plain function: each of those takes a way through a thread, at every request."""
    front: Front = request.app.state.front
    return front


FrontDep = Annotated[Front, Depends(_front)]


async def _session(front: FrontDep, session_id: str) -> Session:
    """Ahead of the body: an unknown session is 404 whatever comes in it."""
    return front.sessions.get(session_id)


SessionDep = Annotated[Session, Depends(_session)]
"""The session that the path names. Declare it ahead of the body."""
