"""OpenTelemetry for the server's process, if it is asked for: spans go to a collector by OTLP.

Needs the extra `otel`; without it, and without an endpoint, nothing of it is loaded. FastAPI makes
the spans of requests; those of sessions, frames and jobs are made in api/spans.py.
"""

from collections.abc import Callable

import onbeat
from onbeat.server.config import SettingsError
from onbeat.server.wording import install, shown

NAME = "onbeat"


def start_tracing(endpoint: str) -> Callable[[], None]:
    """From now on spans are sent to `endpoint`, such as http://127.0.0.1:4318. The answer sends
    what is left and ends it. Raises SettingsError where the extra is not installed."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SettingsError(
            f"otlp_endpoint: {shown(endpoint)} needs OpenTelemetry: {install('otel')}"
        ) from error
    resource = Resource.create({"service.name": NAME, "service.version": onbeat.__version__})
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.shutdown
