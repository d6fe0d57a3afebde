"""How large request bodies may be, announced and as they arrive, and how long they may take.

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
STALL_SECONDS = 30.0
"""Longest wait for the next part of a body."""
WHOLE_SECONDS = 300.0
"""In which all of it has to arrive: 12 MiB at 40 kB a second."""


def body_limit(path: str) -> int:
    """Bytes a request body may have."""
    return MEDIA_LIMIT if MEDIA_PATHS.fullmatch(path) else BODY_LIMIT


class Body:
    """The body of one request, on its way from the server to the application."""

    def __init__(self, path: str, headers: Headers, receive: Receive) -> None:
        self._limit = body_limit(path)
        self._receive = receive
        self._seen = 0
        self._until: float | None = None
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
        """The next message. Raises ApiError 413 once more has arrived than is allowed, 408 if the
        body does not go on. After it one may wait for the client's end as long as one likes."""
        if self._over:
            return await self._next()
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + WHOLE_SECONDS
        seconds = max(0.0, min(STALL_SECONDS, self._until - now))
        try:
            async with asyncio.timeout(seconds):
                message = await self._next()
        except TimeoutError as error:
            self._over = True  # nothing more of it is waited for
            raise _stalled() from error
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


def _stalled() -> ApiError:
    message = (
        "The body did not arrive in time; allowed: "
        f"{STALL_SECONDS:g} s without any of it, {WHOLE_SECONDS:g} s for all."
    )
    return ApiError(408, "body_timeout", message, headers={"connection": "close"})
