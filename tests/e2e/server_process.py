"""A real server in its own process, for tests that look at it from outside."""

import http.client
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

READY_SECONDS = 200.0


def reserved() -> socket.socket:
    """Holds a free port of 127.0.0.1 until it is closed: nobody else is given it, whoever asks for
    it by number may listen there, and nobody answers before."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def until(condition: Callable[[], Any], seconds: float, what: str) -> float:
    """Seconds until `condition` holds; fails naming `what` after `seconds`."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"{what}: not within {seconds} s"
        time.sleep(0.05)
    return time.monotonic() - began


class ServerProcess:
    """`onbeat serve` on a free port of 127.0.0.1, its state and log in `folder`."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._port = reserved()
        self.port = int(self._port.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        data, port = str(folder / "data"), str(self.port)
        command = [sys.executable, "-m", "onbeat.server", "serve"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--port", port, "--data-dir", data, *flags],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def get(self, path: str) -> Any:
        """The JSON of a GET. Raises urllib.error.HTTPError, or URLError if nobody answers."""
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return json.load(answer)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def delete(self, path: str) -> None:
        request = urllib.request.Request(self.url + path, method="DELETE")
        urllib.request.urlopen(request, timeout=60).close()

    def wait_ready(self) -> float:
        """Seconds until streams can be opened. Raises RuntimeError with the end of the log."""
        began = time.monotonic()
        while time.monotonic() - began < READY_SECONDS:
            if self.process.poll() is not None:
                break
            try:
                self.get("/ready")
                return time.monotonic() - began
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)
        raise RuntimeError(f"the server is not ready:\n{self.log.read_text()[-3000:]}")

    def close(self) -> None:
        end(self.process)
        self._port.close()


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a server as Ctrl-C would; by force after 60 s."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(60)
