"""The Prometheus metrics of frames and of what viewers report. Labels are stages and ends only.

Fed as things happen; a part of metrics.py.
"""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram

from onbeat.server.api.frames import FRAME_STAGES, FRONT_STAGES, VIEWER_STAGES, FrameRecord

_FAST = (1, 2, 4, 6, 8, 10, 12, 16, 20, 25, 33, 40, 50, 66, 83, 100)
_SLOW = (150, 200, 300, 500, 750, 1000, 2000)
FRAME_BUCKETS = tuple(milliseconds / 1000 for milliseconds in _FAST + _SLOW)
"""Seconds. 16, 33, 41 and 66 ms are the periods of 60, 30, 24 and 15 frames a second."""

VIEWER_COUNTS = {
    "freeze_count": ("viewer_freezes", "Freezes that browsers counted", 1.0),
    "freezes_ms": ("viewer_freeze_seconds", "Time in these freezes", 1e-3),
    "frames_dropped": ("viewer_frames_dropped", "Frames that browsers did not show", 1.0),
    "frames_decoded": ("viewer_frames_decoded", "Frames that browsers decoded", 1.0),
    "packets_lost": ("viewer_packets_lost", "Packets that did not reach browsers", 1.0),
}
"""Totals of a browser's report: name, text, and what makes base units of it."""


class FrameMetrics:
    """Of all sessions together. Updating is thread-safe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._stage = self._histogram(
            "frame_duration_seconds", "A frame's stages after the engine", "stage"
        )
        self._latency = self._histogram(
            "frame_latency_seconds", "From its chunk's admission to being sent, or shown", "to"
        )
        self._lateness = self._histogram(
            "frame_lateness_seconds", "After its playout instant at which a frame was encoded"
        )
        self._interval = self._histogram(
            "frame_interval_seconds", "Between two frames of a session that were sent"
        )
        self._skew = self._histogram("av_skew_seconds", "Between sound and picture, as viewers say")
        self._trip = self._histogram("round_trip_seconds", "Round trips, as viewers say")
        self._reports = self._counter("viewer_reports", "Reports of viewers' browsers")
        for stage in FRAME_STAGES:
            self._stage.labels(stage)
        for end in ("sent", "shown"):
            self._latency.labels(end)
        self._counts = {
            key: (self._counter(name, text), scale)
            for key, (name, text, scale) in VIEWER_COUNTS.items()
        }

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(
            f"onbeat_{name}", text, labels, buckets=FRAME_BUCKETS, registry=self._registry
        )

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"onbeat_{name}", text, registry=self._registry)

    def sent(self, records: Iterable[FrameRecord]) -> None:
        """Frames that left."""
        stages = {name: self._stage.labels(name) for name in FRONT_STAGES}
        latency = self._latency.labels("sent")
        for record in records:
            for name, histogram in stages.items():
                histogram.observe(record.stages[name])
            latency.observe(record.total)
            self._lateness.observe(max(0.0, record.lateness))
            if record.interval is not None:
                self._interval.observe(record.interval)

    def seen(self, records: Iterable[FrameRecord]) -> None:
        """Frames that a viewer told of."""
        for record in records:
            for name in VIEWER_STAGES:
                self._stage.labels(name).observe(record.stages[name])
            self._latency.labels("shown").observe(record.total)

    def reported(self, now: Mapping[str, float], before: Mapping[str, float]) -> None:
        """A viewer's report and the one before it: totals count by what they grew."""
        self._reports.inc()
        for key, (counter, scale) in self._counts.items():
            counter.inc(scale * max(0.0, now.get(key, 0.0) - before.get(key, 0.0)))
        if (skew := now.get("av_skew_ms")) is not None:
            self._skew.observe(abs(skew) / 1e3)
        if (trip := now.get("rtt_ms", -1.0)) >= 0:
            self._trip.observe(trip / 1e3)
