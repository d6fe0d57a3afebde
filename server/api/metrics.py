"""The Prometheus side: one registry per server, names with the prefix `onbeat_`, bounded labels.

Counters and histograms are fed as things happen; gauges are read when the page is asked for.
"""

from collections.abc import Iterable
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import generate_latest

import onbeat
from onbeat.server.api.frame_metrics import FRAME_BUCKETS, FrameMetrics
from onbeat.server.api.frames import ENGINE_STAGES
from onbeat.server.api.gpu import GpuMetrics
from onbeat.server.api.hub import EngineHub
from onbeat.server.api.measures import Sent, efficiencies
from onbeat.server.api.sessions import SessionManager
from onbeat.server.api.system_metrics import SystemMetrics
from onbeat.server.api.telemetry import Telemetry
from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    EngineReady,
    EngineStats,
    TransferStats,
)
from onbeat.server.engine.track import BucketCost
from onbeat.server.vocabulary import DropCause, Place

FINE_BUCKETS = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2)
JOB_BUCKETS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960)
WAIT_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SLACK_BUCKETS = (-1, -0.5, -0.2, -0.1, -0.05, 0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 1)
RATIO_BUCKETS = (0.5, 0.8, 1, 1.2, 1.5, 2, 3, 4, 6, 8, 12, 16)
ROW_BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
MOST_LEVELS = 8
REFUSALS = ("capacity", "invalid", "viewers", "other")
OUTCOMES = ("completed", "failed", "cancelled")


class Metrics:
    """All metrics of one server. Updating is thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._broken: dict[str, int] = {}
        """Misses past the most allowed, by stream, as last reported."""
        self._live_gauges()
        self._engine_gauges()
        self._transfer_metrics()
        self._histograms()
        self._counters()
        self.frames = FrameMetrics(self.registry)
        self.system = SystemMetrics(self.registry)
        self.gpu = GpuMetrics(self.registry)
        self._model = Info("onbeat_model", "The served model", registry=self.registry)
        build = Info("onbeat_build", "This program", registry=self.registry)
        build.info({"version": onbeat.__version__})

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"onbeat_{name}", text, labels, registry=self.registry)

    def _live_gauges(self) -> None:
        self._sessions = self._gauge("sessions_active", "Open live sessions")
        self._viewers = self._gauge("viewers_active", "Connected viewers")
        self._jobs_running = self._gauge("jobs_running", "Jobs being generated")
        self._jobs_waiting = self._gauge("jobs_waiting", "Jobs waiting")
        self._resting = self._gauge("sessions_resting", "Sessions paused as nobody looks")
        self._held = self._gauge("sessions_held_down", "Sessions whose links keep quality down")
        self._recordings = self._gauge("recordings_active", "Recordings under way")
        self._recording_bytes = self._gauge("recording_bytes", "Bytes of stored recordings")
        self.artifact_bytes = self._gauge("artifact_bytes", "Bytes of videos and ended recordings")

    def _engine_gauges(self) -> None:
        self._up = self._gauge("engine_up", "1 while the engine is warm")
        self._busy = self._gauge("engine_busy_ratio", "Share of time the compute lane worked")
        self._utilisation = self._gauge("engine_utilisation_ratio", "Share promised by admission")
        self._waiting = self._gauge("streams_waiting", "Live streams that wait for room")
        self._capacity = self._gauge("engine_streams_capacity", "Live streams the engine can hold")
        self._pages = self._gauge("kv_pages_used", "KV pages in use")
        self._pages_total = self._gauge("kv_pages", "KV pages of the pool")
        self._usage = self._gauge("kv_cache_usage_ratio", "KV pages in use over all")
        self._slots = self._gauge("state_slots_used", "Decoder state slots in use")
        self._slots_total = self._gauge("state_slots", "Decoder state slots")
        self._levels = self._gauge(
            "streams_by_level", "Live streams on the quality ladder", "level"
        )
        self._cost = self._gauge(
            "forward_seconds", "Recent forwards by size", "kind", "rows", "quantile", "source"
        )
        self._cost_error = self._gauge(
            "forward_p99_error_ratio", "Real over predicted p99, minus 1", "kind", "rows"
        )

    def _transfer_metrics(self) -> None:
        self._places = self._gauge("streams_paused", "Paused streams by place of their KV", "place")
        self._host = self._gauge("kv_host_bytes", "Host memory with KV of paused streams")
        self._host_total = self._gauge("kv_host_bytes_limit", "Host memory for KV at most")
        self._copied_bytes = self._counter("kv_transfer_bytes", "KV copied to and from the host")
        self._copied = self._counter("kv_transfer_seconds", "Time of these copies")
        self._exposed = self._counter(
            "kv_transfer_exposed_seconds", "Idle compute while a stream waited for its copy"
        )
        self._waited = self._counter("kv_transfer_waited_seconds", "Streams' wait for copies")

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"onbeat_{name}", text, labels, buckets=buckets, registry=self.registry)

    def _histograms(self) -> None:
        make = self._histogram
        self.first_frame = make(
            "time_to_first_frame_seconds", "Offer to first frame", FRAME_BUCKETS
        )
        self.photon = make("control_to_photon_seconds", "Control to its first frame", FRAME_BUCKETS)
        self._stage = make(
            "chunk_duration_seconds", "A live chunk's stages", FRAME_BUCKETS, "stage"
        )
        self._step = make("denoise_step_seconds", "One batched step", FRAME_BUCKETS)
        self._plan = make("plan_seconds", "Planning one tick", FINE_BUCKETS)
        self._rows = make("batch_rows", "Rows of a batch", ROW_BUCKETS)
        self._decode = make("decode_seconds", "Decoding one batch of chunks", FRAME_BUCKETS)
        self._slack = make("chunk_slack_seconds", "Playout minus being ready", SLACK_BUCKETS)
        self._efficiency = make(
            "batch_efficiency_ratio", "Rows times the time of one, over a batch's", RATIO_BUCKETS
        )
        self.admission = make(
            "admission_wait_seconds", "A session's wait for the engine", WAIT_BUCKETS
        )
        self._queue_wait = make("queue_wait_seconds", "A job's wait for its start", JOB_BUCKETS)
        self._job = make("job_duration_seconds", "A job's run", JOB_BUCKETS, "outcome")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"onbeat_{name}", text, labels, registry=self.registry)

    def _counters(self) -> None:
        self._generated = self._counter("frames_generated", "Frames made for live streams")
        self._sent = self._counter("frames_sent", "Frames sent")
        self._due = self._counter("frames_due", "Frames due at senders with viewers")
        self._on_time = self._counter("frames_on_time", "Frames sent on time")
        self._dropped = self._counter("frames_dropped", "Frames not sent", "reason")
        self._missed = self._counter("frames_missed", "Live frames late or never made", "cause")
        self._chunks = self._counter("chunks", "Live chunks by outcome", "outcome")
        self._by_steps = self._counter("chunk_steps", "Live chunks by denoise steps", "steps")
        self._jobs = self._counter("jobs", "Finished jobs", "outcome")
        self._rejected = self._counter("admission_rejected", "Streams refused", "reason")
        self._firm = self._counter("firm_misses", "Chunks past what a stream may miss in a row")
        self._silent = self._counter("audio_underrun_seconds", "Silence sent for want of sound")
        self._restarts = self._counter("engine_restarts", "Engine processes replaced")
        self._webhooks = self._counter("webhook_deliveries", "Attempts to tell of a job", "outcome")
        self._label_all()

    def _label_all(self) -> None:
        """All series are there from the start: a rate over one that appears misses its first."""
        causes = get_args(DropCause)
        _labelled(self._stage, ENGINE_STAGES)
        _labelled(self._job, OUTCOMES)
        _labelled(self._jobs, OUTCOMES)
        _labelled(self._dropped, ("late", "skipped", "encoder"))
        _labelled(self._missed, [cause for cause in causes if cause != "paused"])
        _labelled(self._chunks, ("on_time", "late", *(f"dropped_{cause}" for cause in causes)))
        _labelled(self._rejected, REFUSALS)
        _labelled(self._places, get_args(Place))
        _labelled(self._levels, map(str, range(MOST_LEVELS)))
        _labelled(self._webhooks, ("delivered", "retry", "given_up"))

    # ---- as things happen ----------------------------------------------------------------------

    def model(self, ready: EngineReady) -> None:
        size = f"{ready.width}x{ready.height}"
        self._model.info({"name": ready.model, "size": size, "fps": str(ready.fps)})

    def chunk(self, event: ChunkReady) -> None:
        self._generated.inc(event.frames)
        self._chunks.labels("on_time" if event.on_time else "late").inc()
        self._by_steps.labels(str(event.steps)).inc()
        if event.cause is not None:
            self._missed.labels(event.cause).inc(event.frames)
        self._slack.observe(event.playout_at - event.ready_at)
        for stage in ENGINE_STAGES:
            self._stage.labels(stage).observe(getattr(event.stages, stage))

    def chunk_dropped(self, event: ChunkDropped, frames: int) -> None:
        self._chunks.labels(f"dropped_{event.cause}").inc()
        if event.cause != "paused":  # nothing was due
            self._missed.labels(event.cause).inc(frames)

    def rejected(self, code: str) -> None:
        self._rejected.labels(code if code in REFUSALS else "other").inc()

    def engine_stats(self, stats: EngineStats, ready: EngineReady | None) -> None:
        for seconds in stats.step_seconds:
            self._step.observe(seconds)
        for seconds in stats.decode_seconds:
            self._decode.observe(seconds)
        for value in efficiencies(stats, ready):
            self._efficiency.observe(value)
        self._streams(stats)
        for seconds in stats.plan_seconds:
            self._plan.observe(seconds)
        for rows in stats.batch_rows:
            self._rows.observe(rows)
        if stats.transfer is not None:
            self._transferred(stats.transfer)

    def _streams(self, stats: EngineStats) -> None:
        live = [stream for stream in stats.streams if stream.kind == "live" and not stream.paused]
        for level in range(MOST_LEVELS):
            self._levels.labels(str(level)).set(sum(s.level == level for s in live))
        broken = {stream.stream_id: stream.firm_broken for stream in stats.streams}
        grown = (n - self._broken.get(name, 0) for name, n in broken.items())
        self._firm.inc(sum(max(0, n) for n in grown))
        self._broken = broken

    def _transferred(self, transfer: TransferStats) -> None:
        self._copied_bytes.inc(transfer.copied_bytes)
        self._copied.inc(transfer.copied_seconds)
        self._exposed.inc(transfer.exposed_seconds)
        self._waited.inc(transfer.waited_seconds)
        self._host.set(transfer.host_bytes)
        self._host_total.set(transfer.host_bytes_total)
        for place in get_args(Place):
            self._places.labels(place).set(transfer.places.get(place, 0))

    def recordings(self, active: int, size: int) -> None:
        self._recordings.set(active)
        self._recording_bytes.set(size)

    def engine_restarted(self) -> None:
        self._restarts.inc()

    def sent(self, sent: Sent) -> None:
        self._due.inc(sent.due)
        self._on_time.inc(sent.on_time)
        self._sent.inc(sent.sent)
        self._missed.labels("encode").inc(sent.encode_missed)
        self._silent.inc(max(0.0, sent.silent_s))
        self.frames.sent(sent.frames)
        self.frames.seen(sent.seen)
        for reason, count in sent.dropped.items():
            self._dropped.labels(reason).inc(count)

    def job_started(self, waited: float) -> None:
        self._queue_wait.observe(max(0.0, waited))

    def job_finished(self, outcome: str, seconds: float) -> None:
        assert outcome in OUTCOMES, outcome
        self._jobs.labels(outcome).inc()
        self._job.labels(outcome).observe(max(0.0, seconds))

    def webhook(self, outcome: str) -> None:
        """delivered, retry or given_up."""
        self._webhooks.labels(outcome).inc()

    # ---- when asked ----------------------------------------------------------------------------

    def render(self, hub: EngineHub, sessions: SessionManager, telemetry: Telemetry) -> bytes:
        """The text of GET /metrics."""
        self._sessions.set(len(sessions.all()))
        self._viewers.set(sum(len(session.viewers) for session in sessions.all()))
        self._resting.set(sum(session.auto_paused for session in sessions.all()))
        self._held.set(sum(session.link.level > 0 for session in sessions.all()))
        self._jobs_running.set(telemetry.job_counts.get("running", 0))
        self._jobs_waiting.set(telemetry.job_counts.get("queued", 0))
        self._up.set(hub.state == "ready")
        self._capacity.set(hub.capacity_streams or 0)
        if hub.stats is not None:
            self._engine(hub.stats)
        return generate_latest(self.registry)

    def _engine(self, stats: EngineStats) -> None:
        self._busy.set(stats.busy_ratio)
        self._utilisation.set(stats.utilisation)
        self._waiting.set(stats.waiting)
        self._pages.set(stats.pages_used)
        self._pages_total.set(stats.pages_total)
        self._usage.set(stats.pages_used / stats.pages_total if stats.pages_total else 0)
        self._slots.set(stats.slots_used)
        self._slots_total.set(stats.slots_total)
        for cost in stats.costs:
            self._forwards(cost)

    def _forwards(self, cost: BucketCost) -> None:
        rows = str(cost.rows)
        values = {
            ("0.5", "real"): cost.p50_ms,
            ("0.99", "real"): cost.p99_ms,
            ("0.5", "predicted"): cost.predicted_p50_ms,
            ("0.99", "predicted"): cost.predicted_p99_ms,
        }
        for (quantile, source), ms in values.items():
            self._cost.labels(cost.kind, rows, quantile, source).set(ms / 1e3)
        self._cost_error.labels(cost.kind, rows).set(cost.p99_error)


def _labelled(metric: Counter | Gauge | Histogram, values: Iterable[str]) -> None:
    for value in values:
        metric.labels(value)
