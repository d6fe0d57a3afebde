"""How much is kept and for how long: which results go, and whether a new one has room. No files.

Results go when they expire, then oldest first while there are too many bytes; what somebody
downloads stays.
"""

import os
import secrets
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PROBE_BYTES = 4096
"""Of a file that shows whether a disk takes anything: a full one may still take an empty file."""


class NoRoom(Exception):
    """A result could not be written; the text has the numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """max_bytes: of all results, 0 without limit; min_free: bytes of the disk left to others;
    keep_seconds: how long a result is kept, 0 for ever."""

    max_bytes: int = 0
    min_free: int = 0
    keep_seconds: float = 0.0


class FileLike(Protocol):
    """What this module needs to know of a file."""

    @property
    def name(self) -> str: ...

    @property
    def bytes(self) -> int: ...

    @property
    def modified(self) -> float: ...


@dataclass(slots=True, kw_only=True)
class Result:
    """All files of one job."""

    job_id: str
    bytes: int = 0
    modified: float = 0.0


def group(entries: Iterable[FileLike]) -> list[Result]:
    """The files by job, oldest first."""
    found: dict[str, Result] = {}
    for entry in entries:
        job_id = entry.name.partition(".")[0]
        result = found.setdefault(job_id, Result(job_id=job_id))
        result.bytes += entry.bytes
        result.modified = max(result.modified, entry.modified)
    return sorted(found.values(), key=lambda result: result.modified)


def surplus(
    results: Iterable[Result], limits: Limits, now: float, held: Collection[str]
) -> list[str]:
    """Ids of the jobs whose files go: expired ones, then the oldest of too many. now: Unix s."""
    free = [result for result in results if result.job_id not in held]
    left = sum(result.bytes for result in results)
    gone: list[str] = []
    for result in free:
        expired = limits.keep_seconds and result.modified + limits.keep_seconds <= now
        if expired or (limits.max_bytes and left > limits.max_bytes):
            gone.append(result.job_id)
            left -= result.bytes
    return gone


def check_writable(folder: Path, limits: Limits) -> None:
    """Raises NoRoom if the disk of a folder is too full, or takes nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        probe = folder / f".{secrets.token_hex(8)}.part"
        try:
            with open(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(bytes(PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise NoRoom(f"Results cannot be written: {error.strerror}.") from error
    if free < limits.min_free:
        raise NoRoom(
            f"The disk has {free >> 20} MiB left, and {limits.min_free >> 20} MiB are kept for "
            "others (ONBEAT_ARTIFACTS_MIN_FREE_MIB)."
        )
