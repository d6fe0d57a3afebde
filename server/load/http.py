"""The few requests of the load: JSON, SDP and text over urllib, with a key if one is asked for.

Blocking; the load calls it on threads. What it is not: a client for programs (onbeat.client).
"""

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urljoin

TIMEOUT = 30.0


class RefusedError(Exception):
    """The server said no: its status and the code of its error."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}")
        self.status, self.code = status, code


class Server:
    """One server. `url` without a path."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def get(self, path: str) -> Any:
        return json.loads(self._send("GET", path)[0])

    def text(self, path: str) -> str:
        return self._send("GET", path)[0].decode()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return json.loads(
            self._send("POST", path, json.dumps(body).encode(), "application/json")[0]
        )

    def offer(self, path: str, sdp: str) -> tuple[str, str]:
        """The answer, and the path of the connection."""
        answer, location = self._send("POST", path, sdp.encode(), "application/sdp")
        return answer.decode(), location

    def delete(self, path: str) -> None:
        self._send("DELETE", path)

    def _send(
        self, method: str, path: str, body: bytes | None = None, kind: str | None = None
    ) -> tuple[bytes, str]:
        """Raises RefusedError for an error status, OSError if nobody answers."""
        headers = self._headers | ({"Content-Type": kind} if kind else {})
        url = urljoin(self.url + "/", path)
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return answer.read(), answer.headers.get("Location", "")
        except urllib.error.HTTPError as error:
            raise RefusedError(error.code, _code(error.read())) from error


def _code(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return "unknown"
