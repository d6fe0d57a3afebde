"""Traces leave by OTLP when they are asked for, and only then."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from onbeat.server import tracing
from onbeat.server.config import SettingsError

PROGRAM = """
import sys
from opentelemetry import trace
from onbeat.server.tracing import start_tracing
end = start_tracing(sys.argv[1])
trace.get_tracer("x").start_span("a frame of the beat").end()
end()
"""


def test_spans_reach_the_collector() -> None:
    bodies: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            bodies.append((self.path, self.rfile.read(length)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    done = subprocess.run([sys.executable, "-c", PROGRAM, url], capture_output=True, text=True)
    server.shutdown()
    thread.join()
    server.server_close()
    assert done.returncode == 0, done.stderr
    paths = {path for path, _ in bodies}
    assert paths == {"/v1/traces"} and any(b"a frame of the beat" in body for _, body in bodies)


def test_without_the_extra_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingsError, match=r"otlp_endpoint.*onbeat\[otel\]"):
        tracing.start_tracing("http://127.0.0.1:4318")


def test_nothing_of_it_is_loaded_otherwise() -> None:
    program = "import sys, onbeat.server.cli; print('opentelemetry.sdk' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
