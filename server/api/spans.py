"""Spans of what happened, for OpenTelemetry: sessions, jobs, and frames with their stages.

Made when a thing is over, from instants that were kept anyway. Of the frames only some are told:
the first one of every so many chunks, and those that were late. Without a provider (tracing.py) a
tracer does nothing.
"""

import time
from collections.abc import Iterable

from opentelemetry import trace
from opentelemetry.trace import Tracer

from onbeat.server.api.frames import SERVER_STAGES, FrameRecord
from onbeat.server.api.session import Session

EVERY_CHUNKS = 50
About = dict[str, str | int | bool]


class Spans:
    """`period`: seconds after its instant from which a frame is late, is the session's own."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("onbeat")

    def frames(self, session: Session, records: Iterable[FrameRecord]) -> None:
        for record in records:
            late = record.lateness > 1 / session.rate.asked
            chosen = record.chunk % EVERY_CHUNKS == 0 and record.number == 0
            if late or chosen:
                self._frame(session, record, late=late)

    def _frame(self, session: Session, record: FrameRecord, *, late: bool) -> None:
        at = record.released_at
        about: About = {"session.id": session.id, "chunk": record.chunk, "late": late}
        whole = self._tracer.start_span("frame", start_time=_wall(at), attributes=about)
        inside = trace.set_span_in_context(whole)
        for stage in SERVER_STAGES:
            span = self._tracer.start_span(f"frame.{stage}", inside, start_time=_wall(at))
            at += record.stages[stage]
            span.end(_wall(at))
        whole.end(_wall(record.sent_at))

    def session(self, session: Session, reason: str) -> None:
        """It has ended."""
        meter = session.meter
        about: About = {
            "session.id": session.id,
            "reason": reason,
            "chunks": sum(meter.by_steps.values()),
            "frames_dropped": meter.dropped_frames,
        }
        start = _wall(session.created)
        self._tracer.start_span("session", start_time=start, attributes=about).end()

    def job(self, outcome: str, seconds: float) -> None:
        """One has ended that ran so long."""
        start = time.time_ns() - int(1e9 * max(0.0, seconds))
        about = {"outcome": outcome}
        self._tracer.start_span("job", start_time=start, attributes=about).end()


def _wall(instant: float) -> int:
    """Nanoseconds of the wall clock now for an instant of the monotonic one."""
    return time.time_ns() - int(1e9 * (time.monotonic() - instant))
