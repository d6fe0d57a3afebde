"""Results in a bucket: S3 or what speaks like it, by obstore (the extra `s3`). Loaded on demand.

Keys, endpoint and region come from the environment as AWS tools have them. An object appears whole
when its upload ends. What it is not: limits (keeping.py).
"""

import os
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from onbeat.server.config import SettingsError
from onbeat.server.jobs.formats import SUFFIXES
from onbeat.server.jobs.keeping import Limits
from onbeat.server.jobs.result_store import Entry, RemoteFile
from onbeat.server.wording import install, shown

SIGNED_SECONDS = 3600
PIECE = 8 << 20
"""Bytes of one part of an upload; an hour of video never lies in memory."""
STREAM_BYTES = 256 << 10
CLIENT: dict[str, Any] = {"timeout": "60s", "connect_timeout": "5s"}
RETRIES: Any = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}


class ObjectStore:
    """One prefix of a bucket, for the jobs of one database."""

    def __init__(self, url: str) -> None:
        """url: s3://bucket/prefix. Raises SettingsError if it cannot be used."""
        try:
            import obstore
            from obstore.store import S3Store
        except ImportError as error:
            message = f"artifacts: {shown(url)} needs the extra s3: {install('s3')}"
            raise SettingsError(message) from error
        parts = _parts(url)
        self._obstore: Any = obstore
        self._store: Any = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            client_options=_client_options(),
            retry_config=RETRIES,
        )

    def put(self, part: Path, name: str, media_type: str) -> None:
        with _as_oserror(name):
            self._obstore.put(
                self._store,
                name,
                part,
                attributes={"Content-Type": media_type},
                chunk_size=PIECE,
                max_concurrency=2,
            )
        part.unlink(missing_ok=True)

    def find(self, name: str) -> RemoteFile | None:
        try:
            with _as_oserror(name):
                found = self._obstore.head(self._store, name)
        except FileNotFoundError:
            return None
        return RemoteFile(
            size=found["size"],
            etag=found["e_tag"] or f'"{name}-{found["size"]}"',
            modified=found["last_modified"].timestamp(),
            stream=lambda start, end: self._stream(name, start, end),
            signed_url=lambda: self._signed(name),
        )

    def read(self, name: str) -> bytes:
        with _as_oserror(name):
            return bytes(self._obstore.get(self._store, name).bytes())

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                with _as_oserror(name):
                    self._obstore.delete(self._store, name)
            except FileNotFoundError:
                continue

    def entries(self) -> Iterator[Entry]:
        with _as_oserror("the bucket"):
            for batch in self._obstore.list(self._store):
                for found in batch:
                    if Path(found["path"]).suffix in SUFFIXES:
                        yield Entry(
                            name=found["path"],
                            bytes=found["size"],
                            modified=found["last_modified"].timestamp(),
                        )

    def sweep(self, known: Collection[str]) -> None:
        """Nothing: a prefix may be shared, and what is left over expires."""

    def check_room(self, limits: Limits) -> None:
        """Nothing: a bucket has room."""

    async def _stream(self, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        with _as_oserror(name):
            options = {"range": (start, end)}
            answer = await self._obstore.get_async(self._store, name, options=options)
            async for piece in answer.stream(min_chunk_size=STREAM_BYTES):
                yield bytes(piece)

    def _signed(self, name: str) -> str:
        lasts = timedelta(seconds=SIGNED_SECONDS)
        return str(self._obstore.sign(self._store, "GET", name, expires_in=lasts))


def _client_options() -> Any:
    """An endpoint without TLS is one that the operator named on purpose."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return {**CLIENT, "allow_http": endpoint.startswith("http://")}


@contextmanager
def _as_oserror(name: str) -> Iterator[None]:
    """What obstore raises, as the errors of files."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError:
        raise
    except BaseError as error:
        first = str(error).partition("\n")[0]
        raise OSError(f"{name}: the object store failed: {first}") from error


def _parts(url: str) -> SplitResult:
    """Raises SettingsError for what names no bucket, or holds keys."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "s3" or not parts.netloc or "@" in parts.netloc:
        allowed = "allowed: a folder, or s3://bucket or s3://bucket/prefix; keys in AWS_*"
        raise SettingsError(f"artifacts: {shown(url)}; {allowed}")
    return parts
