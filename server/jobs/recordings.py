"""The recordings of a data folder: `<id>.json` says what each is; finished files lie with results.

While one runs its media are in `<id>.mp4.part`, which plays at every instant. At its end, or by the
next process, they become `<id>.mp4`, and that goes to the artifacts. Thread-safe. What it is not:
the writing (recording.py), or the place of finished files and how long they stay (artifacts.py).
"""

import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Literal

import msgspec

from onbeat.server.jobs.artifacts import Artifacts
from onbeat.server.jobs.file_store import bytes_in, force
from onbeat.server.jobs.keeping import NoRoom
from onbeat.server.jobs.muxing import Container, NothingRecorded, made_neat
from onbeat.server.jobs.recording import StopReason
from onbeat.server.jobs.regular import Regularly

log = logging.getLogger("onbeat.recording")

RecordingStatus = Literal["recording", "finishing", "completed", "failed", "expired"]
"""expired: it was completed, and its file is not kept any more."""
PART = ".part"
LEAST_ROOM = 16 << 20
"""Bytes that must be left when a recording begins."""
SETTLE_SECONDS = 30.0
"""Between two tries to put files in their place."""


class RecordingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a recording. `seconds`, `frames`: of its pictures."""

    id: str
    session_id: str
    status: RecordingStatus
    format: Container
    video_codec: str
    audio: bool
    width: int
    height: int
    fps: int
    created_at: int
    frames: int = 0
    seconds: float = 0.0
    bytes: int = 0
    reason: str | None = None
    prompt: str | None = None
    """The session's words when it began; None: it is older than this field."""


class RecordingStore:
    """folder: of what runs, and of what is known; artifacts: where finished files go.

    max_bytes: of all recordings; min_free: bytes of the folder's disk that are left to others.
    """

    def __init__(
        self, folder: Path, artifacts: Artifacts, *, max_bytes: int, min_free: int
    ) -> None:
        self._folder, self._artifacts = folder, artifacts
        self._max, self._min_free = max_bytes, min_free
        self._lock = threading.Lock()
        self._all: dict[str, RecordingInfo] = {}
        self._left: set[str] = set()
        """Ended ones whose files are not in their place yet."""
        self._settling = threading.Lock()
        self._stored = 0
        self._keeping = Regularly("recordings", SETTLE_SECONDS, self._keep, at_once=True)
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob("*.json")):
            self._load(path)

    def _load(self, path: Path) -> None:
        try:
            info = msgspec.json.decode(path.read_bytes(), type=RecordingInfo)
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("%s cannot be read and is left alone: %s", path.name, error)
            return
        self._all[info.id] = info
        if info.status in ("recording", "finishing") or self.path(info).exists():
            self._left.add(info.id)

    def start(self) -> None:
        """Puts what an ended process left in its place, and tries again until `close`."""
        self._keeping.start()

    def close(self) -> None:
        """Idempotent."""
        self._keeping.close()

    # ---- looking -------------------------------------------------------------------------------

    def all(self) -> list[RecordingInfo]:
        """Oldest first."""
        with self._lock:
            return sorted(self._all.values(), key=lambda info: info.created_at)

    def page(
        self, *, session_id: str | None, after: str | None, limit: int, newest_first: bool
    ) -> list[RecordingInfo]:
        """Up to `limit` of one session or of all, behind the one with id `after`. Raises KeyError
        if that is not among them."""
        found = [info for info in self.all() if session_id in (None, info.session_id)]
        if newest_first:
            found.reverse()
        if after is not None:
            places = {info.id: place for place, info in enumerate(found)}
            found = found[places[after] + 1 :]
        return found[:limit]

    def get(self, recording_id: str) -> RecordingInfo | None:
        with self._lock:
            return self._all.get(recording_id)

    def part(self, info: RecordingInfo) -> Path:
        """What is being written."""
        return self._folder / f"{info.id}.{info.format}{PART}"

    def path(self, info: RecordingInfo) -> Path:
        """What is whole and waits for its place."""
        return self._folder / f"{info.id}.{info.format}"

    def size(self) -> int:
        """Bytes of all files, wherever they lie. Raises OSError."""
        sizes = self._artifacts.sizes()
        with self._lock:
            self._stored = sum(sizes.get(each, 0) for each in self._all)
        return self._used()

    def _used(self) -> int:
        """Here and now, and there as last counted: a bucket is not asked for each second."""
        return bytes_in(self._folder) + self._stored

    def room(self) -> int:
        """Bytes that may still be written; 0 or less: none."""
        free = shutil.disk_usage(self._folder).free - self._min_free
        return min(free, self._max - self._used())

    def check_room(self) -> None:
        """Raises NoRoom."""
        if self._max <= 0:
            raise NoRoom("This server takes no recordings: ONBEAT_RECORDINGS_MAX_MIB is 0.")
        size, free = self._used(), shutil.disk_usage(self._folder).free
        if self._max - size < LEAST_ROOM:
            raise NoRoom(
                f"Recordings take {size >> 20} MiB of {self._max >> 20} MiB, and a new one needs "
                f"{LEAST_ROOM >> 20} MiB; delete some, or raise ONBEAT_RECORDINGS_MAX_MIB."
            )
        if free - self._min_free < LEAST_ROOM:
            raise NoRoom(
                f"The disk has {free >> 20} MiB left, and {self._min_free >> 20} MiB of them are "
                "kept for others (ONBEAT_RECORDINGS_MIN_FREE_MIB)."
            )
        self._artifacts.check_room()

    # ---- changing ------------------------------------------------------------------------------

    def write(self, info: RecordingInfo) -> None:
        """Puts down what is known, at once and for good. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)  # somebody may have removed it
        path = self._folder / f"{info.id}.json"
        new = path.with_suffix(".json.new")
        new.write_bytes(msgspec.json.encode(info))
        force(new)
        os.replace(new, path)
        force(self._folder)
        self._note(info)

    def _note(self, info: RecordingInfo) -> None:
        with self._lock:
            self._all[info.id] = info

    def finish(self, info: RecordingInfo, reason: StopReason) -> RecordingInfo:
        """Makes the file that was written neat, and puts it in its place. Raises OSError: the file
        is kept, the recording is "finishing", and `settle` tries again."""
        try:
            return self._settled(info, reason)
        except OSError:
            known = self.get(info.id) or info
            self._note(msgspec.structs.replace(known, status="finishing", reason=reason))
            self._left.add(info.id)
            raise

    def _settled(self, info: RecordingInfo, reason: str) -> RecordingInfo:
        """Every step may be the last one of a process: the next one goes on from it."""
        whole = self.path(info)
        if not whole.exists():
            if not self.part(info).exists():
                return self._completed(info) if self._is_there(info) else self._failed(info, reason)
            neat = self._made_neat(info, reason)
            if neat is None:
                return self._failed(info, reason)
            info = neat
        os.utime(whole)  # it is kept from now on, however long ago it ended
        self._artifacts.publish(whole, info.id, "video", info.format)
        self.part(info).unlink(missing_ok=True)
        return self._completed(info)

    def _is_there(self, info: RecordingInfo) -> bool:
        """Whether it was put in its place just before the end. `bytes`: of a file that is whole."""
        return bool(info.bytes and self._artifacts.find(info.id, "video", info.format))

    def _made_neat(self, info: RecordingInfo, reason: str) -> RecordingInfo | None:
        """None if it holds no picture. A file that cannot be made neat for want of room stays as
        it was written: it plays, without an index."""
        part, whole = self.part(info), self.path(info)
        neat = self._neat(info)
        frames, seconds = info.frames, info.seconds
        try:
            frames, seconds = made_neat(part, neat, info.format, info.fps)
        except NothingRecorded:
            return None
        except OSError as error:
            log.warning("recording %s stays as it was written: %s", info.id, error)
            neat.unlink(missing_ok=True)
            neat = part
        force(neat)
        info = msgspec.structs.replace(
            info,
            status="finishing",
            reason=reason,
            frames=frames,
            seconds=round(seconds, 4),
            bytes=neat.stat().st_size,
        )
        self.write(info)
        os.replace(neat, whole)
        part.unlink(missing_ok=True)
        force(self._folder)
        return info

    def _neat(self, info: RecordingInfo) -> Path:
        return self.path(info).with_suffix(f".neat{PART}")

    def _completed(self, info: RecordingInfo) -> RecordingInfo:
        done = msgspec.structs.replace(info, status="completed")
        self.write(done)
        return done

    def _failed(self, info: RecordingInfo, reason: str) -> RecordingInfo:
        for path in (self.part(info), self._neat(info)):
            path.unlink(missing_ok=True)
        empty = reason in ("stopped", "session_ended", "server_ended")
        failed = msgspec.structs.replace(
            info, status="failed", reason="no_picture" if empty else reason, bytes=0
        )
        self.write(failed)
        return failed

    def settle(self) -> int:
        """Puts what was left in its place; how many there were."""
        count = 0
        for recording_id in sorted(self._left):
            if self._keeping.closing:
                break
            with self._settling:
                info = self.get(recording_id)
                if info is None:  # removed meanwhile
                    continue
                try:
                    self._settled(info, info.reason or "server_ended")
                except OSError as error:
                    log.warning("recording %s waits for its place: %s", recording_id, error)
                else:
                    self._left.discard(recording_id)
                    count += 1
        return count

    def expire(self) -> int:
        """Notes which files are not kept any more; how many there were. Raises OSError."""
        done = [info for info in self.all() if info.status == "completed"]
        sizes, count = self._artifacts.sizes(), 0
        for info in done:
            if info.id in sizes or self._is_there(info):
                continue
            with self._settling:
                if self.get(info.id) is info:  # not removed meanwhile
                    self.write(msgspec.structs.replace(info, status="expired"))
                    count += 1
        return count

    def _keep(self) -> None:
        self.settle()
        try:
            self.expire()
        except OSError as error:
            log.warning("files of recordings cannot be looked up: %s", error)

    def remove(self, recording_id: str) -> None:
        """Removes a recording and its files. Idempotent. Raises OSError: it is still there."""
        with self._settling:
            info = self.get(recording_id)
            if info is None:
                return
            self._artifacts.remove(recording_id)
            with self._lock:
                self._all.pop(recording_id, None)
            self._left.discard(recording_id)
            beside = self._folder / f"{info.id}.json"
            for path in (self.path(info), self.part(info), self._neat(info), beside):
                path.unlink(missing_ok=True)
