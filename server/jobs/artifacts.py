"""The results of jobs, and recordings: published whole, found, kept within limits, removed.

Where they lie is a store's matter: a folder (file_store.py) or an object store (object_store.py).
A file is complete or absent. A recording is known by its id as a job is. What it is not: encoding
(encode.py), or what is known of jobs (store.py) and recordings (recordings.py).
"""

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from onbeat.server.jobs.file_store import PART, FileStore
from onbeat.server.jobs.formats import VARIANTS, Format, Variant, artifact_name, media_type, suffix
from onbeat.server.jobs.keeping import Limits, NoRoom, check_writable, group, surplus
from onbeat.server.jobs.regular import Regularly
from onbeat.server.jobs.result_store import LocalFile, RemoteFile, ResultStore

log = logging.getLogger("onbeat.jobs")

WORK = "work"
TIDY_SECONDS = 10.0
ROOM_SECONDS = 1.0
"""How long an answer of `check_room` holds."""
READ_BYTES = 1 << 20


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A published file: its name in the store, its length, and what it must hash to."""

    key: str
    bytes: int
    sha256: str
    media_type: str


class Artifacts:
    """folder: where attempts write, and results too unless `store` keeps them elsewhere.

    work: where unfinished jobs keep what was made of them; a folder beside `folder` if unset.
    clock: Unix seconds. Thread-safe.
    """

    def __init__(
        self,
        folder: Path,
        *,
        store: ResultStore | None = None,
        work: Path | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._clock = folder, clock
        self.work = work or folder.parent / WORK
        """The folder of what is made of jobs that have not ended."""
        self._store = store or FileStore(folder)
        self._limits = limits or Limits()
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._sizes: Mapping[str, int] | None = None
        self._room_asked_at = -ROOM_SECONDS
        self._keeping = Regularly("artifacts", TIDY_SECONDS, self._tidy)
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Keeps within the limits until `close`."""
        self._keeping.start()

    def close(self) -> None:
        """Idempotent."""
        self._keeping.close()

    # ---- written by attempts -------------------------------------------------------------------

    def part(self, job_id: str, fence: int, variant: Variant) -> Path:
        """Where an attempt writes; no other attempt writes there."""
        self._folder.mkdir(parents=True, exist_ok=True)  # somebody may have removed it
        return self._folder / f"{job_id}.{fence}{suffix(variant)}{PART}"

    def publish(
        self, part: Path, job_id: str, variant: Variant, format: Format = "mp4"
    ) -> StoredFile:
        """Makes a written file the result, at once and for good. Raises OSError."""
        name, kind = artifact_name(job_id, variant, format), media_type(variant, format)
        stored = StoredFile(
            key=name, bytes=part.stat().st_size, sha256=hash_of(part), media_type=kind
        )
        self._store.put(part, name, kind)
        self._sizes = None
        return stored

    def remove(self, job_id: str) -> None:
        """Removes all files of a job. Idempotent. Raises OSError."""
        self._store.remove(job_id + each for each in _suffixes())
        self._sizes = None

    def sweep(self, known: Collection[str]) -> None:
        """Removes what an ended process left: unfinished files, results of unknown jobs."""
        for path in self._folder.glob(f"*{PART}"):
            path.unlink(missing_ok=True)
        self._store.sweep(known)

    # ---- read ----------------------------------------------------------------------------------

    def find(
        self, job_id: str, variant: Variant, format: Format = "mp4"
    ) -> LocalFile | RemoteFile | None:
        """A published file; None if it is not there. Raises OSError if the store fails."""
        return self._store.find(artifact_name(job_id, variant, format))

    def read(self, job_id: str, variant: Variant, format: Format = "mp4") -> bytes:
        """All bytes of a published file. Raises OSError: FileNotFoundError if it is gone."""
        return self._store.read(artifact_name(job_id, variant, format))

    @contextmanager
    def holding(self, job_id: str) -> Iterator[None]:
        """Meanwhile the job's files are not evicted: somebody downloads one."""
        with self._lock:
            self._held[job_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[job_id] -= 1
                self._held += Counter()  # forgets those that nobody holds

    # ---- limits --------------------------------------------------------------------------------

    def size(self) -> int:
        """Bytes of all files, as last counted. Raises OSError."""
        return sum(self.sizes().values())

    def sizes(self) -> Mapping[str, int]:
        """The same by job. Raises OSError."""
        found = self._sizes
        if found is None:
            found = {each.job_id: each.bytes for each in group(self._store.entries())}
            self._sizes = found
        return found

    def expires_at(self, completed_at: float) -> float | None:
        """When results of that time are removed; None: they are kept."""
        keep = self._limits.keep_seconds
        return completed_at + keep if keep else None

    def check_room(self) -> None:
        """Raises NoRoom if a job that begins now could not be written; looks once a second."""
        now = time.monotonic()
        if now - self._room_asked_at >= ROOM_SECONDS:
            check_writable(self._folder, self._limits)
            self._store.check_room(self._limits)
            self._room_asked_at = now

    def tidy(self) -> list[str]:
        """Removes results that expired, then the oldest while there are too many bytes; whose."""
        entries = list(self._store.entries())
        with self._lock:
            held = frozenset(self._held)
        gone = surplus(group(entries), self._limits, self._clock(), held)
        for job_id in gone:
            log.info("the files of %s are removed: expired, or the oldest of too many", job_id)
            self.remove(job_id)
        self._sizes = None
        return gone

    def _tidy(self) -> None:
        try:
            self.tidy()
        except OSError as error:
            log.warning("results cannot be tidied up: %s", error)


def hash_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _suffixes() -> list[str]:
    stills = [suffix(variant) for variant in VARIANTS if variant != "video"]
    return [*(suffix("video", each) for each in ("mp4", "webm", "png", "wav")), *stills]


__all__ = ["Artifacts", "LocalFile", "NoRoom", "RemoteFile", "StoredFile"]
