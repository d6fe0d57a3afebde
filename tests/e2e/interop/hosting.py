"""Where the clients' page is served from, an origin of its own; and the stage's process.

Results of browsers that nobody drives come back here too, by POST /result.
"""

import functools
import http.client
import json
import queue
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aioice.ice import get_host_addresses

from tests.e2e.server_process import end, reserved

FOLDER = Path(__file__).parent
READY_SECONDS = 150.0


class _Handler(SimpleHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.results.put(json.loads(body))  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Pages:
    """Serves this folder on a port of 127.0.0.1."""

    def __init__(self) -> None:
        handler = functools.partial(_Handler, directory=str(FOLDER))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.results: queue.Queue[dict[str, Any]] = queue.Queue()
        self._server.results = self.results  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def one_address() -> str:
    """One address to bind: clients that join candidates with commas understand only one."""
    found = [each for each in get_host_addresses(use_ipv4=True, use_ipv6=False)]
    return found[0] if found else "127.0.0.1"


class Stage:
    """The process of stage.py. `settings` as in load_settings."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._port = reserved()
        self.port = int(self._port.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = settings.get("api_key")
        self.log = folder / "stage.log"
        given = [f"{name}={value}" for name, value in settings.items()]
        command = [sys.executable, "-m", "tests.e2e.interop.stage", str(self.port), str(folder)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *given], stdout=log, stderr=subprocess.STDOUT
            )
        self._wait()

    def request(self, path: str, body: dict[str, Any] | None = None, method: str = "GET") -> Any:
        """The JSON of the answer."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def session(self) -> dict[str, Any]:
        made: dict[str, Any] = self.request("/v1/sessions", {"prompt": "bars"}, "POST")
        return made

    def seen(self, session_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.request("/seen")[session_id]
        return found

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                self.request("/ready")
                return
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
        self.close()
        raise RuntimeError(f"the stage is not ready:\n{self.log.read_text()[-3000:]}")

    def close(self) -> None:
        end(self.process)
        self._port.close()
