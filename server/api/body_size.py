"""How large request bodies may be: announced, and counted as they arrive.

A body that is refused is read to its end before the answer, within bounds: a server that answers
and closes while the client still sends makes its system discard the answer (RFC 9112, 9.6). What it
is not: what bodies hold (body.py).
"""

import asyncio
import re

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from onbeat.server.api.errors import ApiError

BODY_LIMIT = 64 * 1024
MEDIA_LIMIT = 12 * 1024 * 1024
"""A request may bring a reference of 8 MiB, in base64."""
MEDIA_PATHS = re.compile(r"/v1/(sessions|videos(/(sync|edits|extensions))?)")
DRAIN_BYTES = 64 * 1024 * 1024
DRAIN_SECONDS = 10.0


def body_limit(path: str) -> int:
    """Bytes a request body may have."""
    return MEDIA_LIMIT if MEDIA_PATHS.fullmatch(path) else BODY_LIMIT


class Body:
    """The body of one request, on its way from the server to the application."""

    def __init__(self, path: str, headers: Headers, receive: Receive) -> None:
        self._limit = body_limit(path)
        self._receive = receive
        self._seen = 0
        self._announced = headers.get("content-length", "0")
        chunked = "transfer-encoding" in headers
        self._over = not chunked and self._announced == "0"
        # who waits for "100 Continue" has sent nothing, and need not
        self._waits = headers.get("expect", "").lower() == "100-continue"

    def too_large(self) -> ApiError | None:
        """413 if the announced length is over the limit."""
        length = self._announced
        if length.isdecimal() and len(length) < 20 and int(length) <= self._limit:
            return None
        return self._refusal()

    async def receive(self) -> Message:
        """The next message. Raises ApiError 413 once more has arrived than is allowed."""
        message = await self._next()
        if self._seen > self._limit:
            raise self._refusal()
        return message

    async def drain(self) -> None:
        """Reads and forgets what is left, so that the client gets round to reading the answer."""
        if self._waits and not self._seen:
            return
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self._over and self._seen < DRAIN_BYTES:
                    await self._next()
        except TimeoutError:
            return  # it is slow: it gets its answer now, and may not see it

    async def _next(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        self._over = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    def _refusal(self) -> ApiError:
        message = f"The body is too large; allowed: {self._limit} bytes."
        return ApiError(413, "body_too_large", message)
