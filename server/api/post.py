"""One POST to one checked address: pinned, without redirects, bounded in time and in bytes.

HTTP/1.1 by h11, the name for TLS and Host being the URL's and the connection the address's. What it
is not: a client for anything else.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import h11

from onbeat.server.api.targets import Address, Target

SECONDS = 15.0
"""For all of it: connecting, sending, and the head of the answer."""
READ_BYTES = 16 * 1024
MAX_HEAD = 32 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`headers` by lower-case names. The body is not read."""

    status: int
    headers: Mapping[str, str]


class PostFailed(Exception):
    """There was no answer; the text says why."""


async def post(
    target: Target,
    found: Sequence[Address],
    body: bytes,
    headers: Mapping[str, str],
    *,
    tls: ssl.SSLContext | None = None,
    seconds: float = SECONDS,
) -> Answer:
    """Sends it to the first address that takes a connection. A redirect is an answer like others.

    Raises PostFailed.
    """
    context = (tls or ssl.create_default_context()) if target.scheme == "https" else None
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await _connected(target, found, context)
            try:
                return await _exchange(reader, writer, target, body, headers)
            finally:
                writer.transport.abort()
    except TimeoutError as error:
        raise PostFailed(f"no answer within {seconds:g} s") from error
    except (OSError, ssl.SSLError, h11.RemoteProtocolError, EOFError) as error:
        raise PostFailed(f"{type(error).__name__}: {error}") from error


async def _connected(
    target: Target, found: Sequence[Address], context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    name = target.host if context else None
    for address in found[:-1]:
        try:
            return await asyncio.open_connection(
                str(address), target.port, ssl=context, server_hostname=name
            )
        except OSError:
            continue
    return await asyncio.open_connection(
        str(found[-1]), target.port, ssl=context, server_hostname=name
    )


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    target: Target,
    body: bytes,
    headers: Mapping[str, str],
) -> Answer:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
    sent = {"host": target.authority, "content-length": str(len(body)), "connection": "close"}
    request = h11.Request(
        method="POST", target=target.path, headers=list({**sent, **headers}.items())
    )
    for event in (request, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(connection.send(event) or b"")
    await writer.drain()
    while True:
        found = connection.next_event()
        if isinstance(found, h11.Response):
            given = {k.decode("latin-1"): v.decode("latin-1") for k, v in found.headers}
            return Answer(status=found.status_code, headers=given)
        if found is h11.NEED_DATA:
            connection.receive_data(await reader.read(READ_BYTES))
        elif isinstance(found, h11.ConnectionClosed):
            raise EOFError("the connection was closed without an answer")
