"""A file from the server, whole: a connection that breaks is taken up where it broke.

A path is written as `<name>.part` and renamed at the end; a stream gets the bytes as they come.
"""

import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any

import httpx2

from onbeat.client.errors import ConnectionFailed
from onbeat.client.transport import AsyncTransport, Transport, lost, raise_for_refusal

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there and those that there will be, if that is known."""
TRIES = 5
"""Connections in a row that may break without a byte."""
PARTIAL = 206


class Download:
    """How far one is. `took` each piece; ask `headers` for the next connection."""

    def __init__(self, out: IO[bytes], progress: Progress | None) -> None:
        self._out, self._progress = out, progress
        self._etag: str | None = None
        self._fruitless = 0
        self.got = 0
        self.size: int | None = None

    def headers(self) -> dict[str, str]:
        """What the next connection asks for: the rest."""
        if not self.got or self._etag is None:
            return {}
        return {"Range": f"bytes={self.got}-", "If-Range": self._etag}

    def begins(self, answer: httpx2.Response) -> None:
        """Raises ConnectionFailed if the file is another one than before."""
        if self.got and answer.status_code != PARTIAL:
            raise ConnectionFailed("The file changed while it was downloaded.")
        self._etag = answer.headers.get("etag")
        if (length := answer.headers.get("content-length")) is not None:
            self.size = self.got + int(length)

    def took(self, piece: bytes) -> None:
        self._out.write(piece)
        self.got += len(piece)
        self._fruitless = 0
        if self._progress is not None:
            self._progress(self.got, self.size)

    @property
    def whole(self) -> bool:
        return self.size is None or self.got >= self.size

    def broke(self, error: ConnectionFailed) -> None:
        """Raises it if there is no use in trying once more."""
        self._fruitless += 1
        if self._fruitless >= TRIES or (self.got and self._etag is None):
            raise error


def check_target(target: str | Path | IO[bytes]) -> None:
    """Raises OSError that names the target if nothing can be written there."""
    if not isinstance(target, (str, Path)):
        if not target.writable():
            raise OSError(errno.EBADF, "not open for writing", str(target))
        return
    if Path(target).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    part = _part(Path(target))
    _named(Path(target), part).close()
    part.unlink()


@contextmanager
def opened(target: str | Path | IO[bytes]) -> Iterator[IO[bytes]]:
    """Where the bytes go. A file appears under its name once it is whole."""
    if not isinstance(target, (str, Path)):
        yield target
        return
    path = Path(target)
    part = _part(path)
    try:
        with _named(path, part) as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _named(path: Path, part: Path) -> IO[bytes]:
    """Raises OSError that names the file that was asked for."""
    try:
        return part.open("wb")
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error


def fetch(
    transport: Transport,
    path: str,
    params: Mapping[str, str],
    target: str | Path | IO[bytes],
    progress: Progress | None,
) -> int:
    """Bytes written. Raises OnbeatError, OSError."""
    with opened(target) as out:
        state = Download(out, progress)
        while True:
            try:
                with _answer(transport, path, params, state) as answer:
                    state.begins(answer)
                    for piece in answer.iter_bytes():
                        state.took(piece)
            except httpx2.TransportError as error:
                state.broke(ConnectionFailed(str(lost(error, transport.address))))
            else:
                if state.whole:
                    return state.got


def _asked(
    transport: Transport | AsyncTransport, path: str, params: Mapping[str, str], state: Download
) -> dict[str, Any]:
    """The request for what is not there yet."""
    return {
        "method": "GET",
        "url": transport.to(path),
        "params": params,
        "headers": transport.headers(state.headers()),
        "follow_redirects": True,
    }


@contextmanager
def _answer(
    transport: Transport, path: str, params: Mapping[str, str], state: Download
) -> Iterator[httpx2.Response]:
    with transport.http.stream(**_asked(transport, path, params, state)) as answer:
        if not answer.is_success:
            answer.read()
            raise_for_refusal(answer)
        yield answer


async def fetch_async(
    transport: AsyncTransport,
    path: str,
    params: Mapping[str, str],
    target: str | Path | IO[bytes],
    progress: Progress | None,
) -> int:
    """Bytes written. Raises OnbeatError, OSError."""
    with opened(target) as out:
        state = Download(out, progress)
        while True:
            try:
                async with _async_answer(transport, path, params, state) as answer:
                    state.begins(answer)
                    async for piece in answer.aiter_bytes():
                        state.took(piece)
            except httpx2.TransportError as error:
                state.broke(ConnectionFailed(str(lost(error, transport.address))))
            else:
                if state.whole:
                    return state.got


@asynccontextmanager
async def _async_answer(
    transport: AsyncTransport, path: str, params: Mapping[str, str], state: Download
) -> AsyncIterator[httpx2.Response]:
    async with transport.http.stream(**_asked(transport, path, params, state)) as answer:
        if not answer.is_success:
            await answer.aread()
            raise_for_refusal(answer)
        yield answer
