"""What a place for results must be able to do, and what it says of a file. No place itself."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from onbeat.server.jobs.keeping import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file of a store. modified: Unix seconds."""

    name: str
    bytes: int
    modified: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file of this machine."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """An object elsewhere. size: in bytes. stream(start, end): its bytes [start, end) as they come;
    signed_url: an address from which anybody can fetch it for a while."""

    size: int
    etag: str
    modified: float
    stream: Callable[[int, int], AsyncIterator[bytes]]
    signed_url: Callable[[], str]


class ResultStore(Protocol):
    """Every call may raise OSError. Names are flat: no folders."""

    def put(self, part: Path, name: str, media_type: str) -> None:
        """Makes a file of this machine the one called `name`, whole or not at all; `part` goes."""

    def find(self, name: str) -> LocalFile | RemoteFile | None: ...

    def read(self, name: str) -> bytes: ...

    def remove(self, names: Iterable[str]) -> None:
        """Names that are not there are no error."""

    def entries(self) -> Iterable[Entry]: ...

    def sweep(self, known: Collection[str]) -> None:
        """Removes the files of jobs that are not known; those of recordings stay."""

    def check_room(self, limits: Limits) -> None:
        """Raises NoRoom if it takes no more."""
