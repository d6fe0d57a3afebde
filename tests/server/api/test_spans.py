"""Spans of sessions, jobs and frames: what is told, and that its parts lie inside it."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from onbeat.server.api.frames import SERVER_STAGES, FrameRecord
from onbeat.server.api.spans import EVERY_CHUNKS, Spans
from tests.server.api.conftest import StartServer, until
from tests.server.api.test_frames import one


class Kept:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = Spans(provider.get_tracer("test"))

    @property
    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]


def session(**more: Any) -> Any:
    rate, ready = SimpleNamespace(asked=20), SimpleNamespace(fps=20)
    return SimpleNamespace(id="session_1", rate=rate, ready=ready, **more)


def frame(chunk: int, *, number: int = 0, lateness: float = 0.0) -> FrameRecord:
    _, record = one()
    return replace(record, chunk=chunk, number=number, lateness=lateness)


def test_a_frame_has_its_stages_end_to_end() -> None:
    kept = Kept()
    kept.spans.frames(session(), [frame(0)])
    (whole,) = kept.named("frame")
    parts = [span for span in kept.all if span is not whole]
    assert [span.name for span in parts] == [f"frame.{stage}" for stage in SERVER_STAGES]
    assert whole.start_time is not None and whole.end_time is not None
    assert whole.end_time - whole.start_time == pytest.approx(232e6, abs=2e6)
    for span in parts:
        assert span.parent is not None and span.start_time is not None
        assert span.parent.span_id == whole.context.span_id
        assert whole.start_time - 2_000_000 <= span.start_time <= whole.end_time + 2_000_000


def test_only_some_frames_are_told_and_all_late_ones() -> None:
    kept = Kept()
    records = [frame(n, number=k) for n in range(2 * EVERY_CHUNKS) for k in range(4)]
    kept.spans.frames(session(), [*records, frame(7, lateness=0.06), frame(8, lateness=0.04)])
    told = [(span.attributes or {})["chunk"] for span in kept.named("frame")]
    assert told == [0, EVERY_CHUNKS, 7]


def test_sessions_and_jobs_are_told_when_they_end(start_server: StartServer) -> None:
    server = start_server(otlp_endpoint="http://127.0.0.1:9")
    kept = Kept()
    server.front.spans = kept.spans
    made = server.session()
    until(lambda: server.front.sessions.all()[0].meter.chunk)
    server.ended(server.video()["id"])
    server.http.delete(f"/v1/sessions/{made['id']}")
    (ended,) = until(lambda: kept.named("session"))
    assert (ended.attributes or {})["session.id"] == made["id"]
    (job,) = until(lambda: kept.named("job"))
    assert (job.attributes or {})["outcome"] == "completed"
