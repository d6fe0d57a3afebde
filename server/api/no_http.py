"""The answer to what is no HTTP: the web server's own 400, as problem details like every error.

It comes before any application: no method, path or header can be relied on. A bad length, a bad
chunk, two hosts, the first bytes of TLS.
"""

import asyncio
import secrets
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from onbeat.server.api.errors import ApiError, problem


def problem_protocol() -> type[asyncio.Protocol]:
    """The protocol that uvicorn would take, with this answer."""

    def send_400_response(self: Any, msg: str) -> None:
        self.transport.write(refusal(msg))
        self.transport.close()

    return type("Problems", (AutoHTTPProtocol,), {"send_400_response": send_400_response})


def refusal(message: str) -> bytes:
    """A whole answer, ready to be sent; the connection ends with it."""
    request_id = f"req_{secrets.token_hex(8)}"
    answer = problem(ApiError(400, "invalid_request", message), request_id, None)
    answer.headers["x-request-id"], answer.headers["connection"] = request_id, "close"
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
    return b"HTTP/1.1 400 Bad Request\r\n" + lines + b"\r\n" + bytes(answer.body)
