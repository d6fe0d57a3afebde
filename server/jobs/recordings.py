"""The recordings of a data folder: `<id>.json` says what each is, `<id>.mp4` or `.webm` holds it.

While one runs its media are in `<id>.mp4.part`, which plays at every instant. What an ended process
left is finished by the next one. Thread-safe. What it is not: the writing (recording.py).
"""

import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Literal

import msgspec

from onbeat.server.jobs.file_store import bytes_in, force
from onbeat.server.jobs.muxing import Container, NothingRecorded, made_neat
from onbeat.server.jobs.recording import StopReason

log = logging.getLogger("onbeat.recording")

RecordingStatus = Literal["recording", "finishing", "completed", "failed"]
PART = ".part"
LEAST_ROOM = 16 << 20
"""Bytes that must be left when a recording begins."""
MEDIA_TYPE: dict[Container, str] = {"mp4": "video/mp4", "webm": "video/webm"}


class NoRoom(Exception):
    """A recording cannot begin; the text has the numbers."""


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


class RecordingStore:
    """max_bytes: of all recordings; min_free: bytes of the disk that are left to others."""

    def __init__(self, folder: Path, *, max_bytes: int, min_free: int) -> None:
        self._folder, self._max, self._min_free = folder, max_bytes, min_free
        self._lock = threading.Lock()
        self._all: dict[str, RecordingInfo] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob("*.json")):
            self._load(path)

    def _load(self, path: Path) -> None:
        try:
            info = msgspec.json.decode(path.read_bytes(), type=RecordingInfo)
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("%s cannot be read and is left alone: %s", path.name, error)
        else:
            self._all[info.id] = info

    # ---- looking -------------------------------------------------------------------------------

    def all(self) -> list[RecordingInfo]:
        """Oldest first."""
        with self._lock:
            return sorted(self._all.values(), key=lambda info: info.created_at)

    def get(self, recording_id: str) -> RecordingInfo | None:
        with self._lock:
            return self._all.get(recording_id)

    def path(self, info: RecordingInfo) -> Path:
        return self._folder / f"{info.id}.{info.format}"

    def part(self, info: RecordingInfo) -> Path:
        return self._folder / f"{info.id}.{info.format}{PART}"

    def size(self) -> int:
        """Bytes of all files."""
        return bytes_in(self._folder)

    def room(self) -> int:
        """Bytes that may still be written; 0 or less: none."""
        free = shutil.disk_usage(self._folder).free - self._min_free
        return min(free, self._max - self.size())

    def check_room(self) -> None:
        """Raises NoRoom."""
        size, free = self.size(), shutil.disk_usage(self._folder).free
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
        with self._lock:
            self._all[info.id] = info

    def finish(self, info: RecordingInfo, reason: StopReason) -> RecordingInfo:
        """Makes the file that was written neat and final. A file that cannot be made neat for want
        of room stays as it was written: it plays, without an index."""
        part, final = self.part(info), self.path(info)
        neat = final.with_suffix(f".neat{PART}")
        frames, seconds = info.frames, info.seconds
        try:
            frames, seconds = made_neat(part, neat, info.format, info.fps)
        except (NothingRecorded, FileNotFoundError):
            return self._failed(info, reason)
        except OSError as error:
            log.warning("recording %s stays as it was written: %s", info.id, error)
            neat.unlink(missing_ok=True)
            neat = part
        force(neat)
        os.replace(neat, final)
        part.unlink(missing_ok=True)
        done = msgspec.structs.replace(
            info,
            status="completed",
            reason=reason,
            frames=frames,
            seconds=round(seconds, 4),
            bytes=final.stat().st_size,
        )
        self.write(done)
        return done

    def _failed(self, info: RecordingInfo, reason: StopReason) -> RecordingInfo:
        for path in (self.part(info), self.path(info).with_suffix(f".neat{PART}")):
            path.unlink(missing_ok=True)
        empty = reason in ("stopped", "session_ended", "server_ended")
        failed = msgspec.structs.replace(
            info, status="failed", reason="no_picture" if empty else reason, bytes=0
        )
        self.write(failed)
        return failed

    def recover(self) -> int:
        """Finishes what an ended process left; how many there were."""
        left = [info for info in self.all() if info.status in ("recording", "finishing")]
        for info in left:
            try:
                self.finish(info, "server_ended")
            except OSError as error:
                log.warning("recording %s cannot be finished: %s", info.id, error)
        return len(left)

    def remove(self, recording_id: str) -> None:
        """Removes a recording and its files. Idempotent."""
        with self._lock:
            info = self._all.pop(recording_id, None)
        if info is not None:
            for path in (self.path(info), self.part(info), self._folder / f"{info.id}.json"):
                path.unlink(missing_ok=True)
