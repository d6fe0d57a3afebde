"""Chunks in a file that is only appended to: pictures, sound and latents, each record with a sum.

A record is on the disk when `append` returns; after a crash or a power cut `read` finds the whole
records up to the first that is not. What it is not: files in a folder (workspace.py).
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEAD = struct.Struct("<4sIIIII")
MARK = b"OBc1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One chunk. `frames` may be empty: they lie in a segment by then."""

    chunk: int
    frames: bytes
    sound: bytes
    latents: bytes

    def packed(self) -> bytes:
        parts = self.frames, self.sound, self.latents
        body = b"".join(parts)
        return HEAD.pack(MARK, self.chunk, *map(len, parts), zlib.crc32(body)) + body

    def without_frames(self) -> "Record":
        return Record(chunk=self.chunk, frames=b"", sound=self.sound, latents=self.latents)


class JournalFile:
    """Appends to one file. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)

    def append(self, record: Record) -> None:
        view = memoryview(record.packed())
        while view:
            view = view[os.write(self._descriptor, view) :]
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read(path: Path) -> Iterator[Record]:
    """The whole records at the beginning of a file, one at a time; none if there is no file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        while len(head := file.read(HEAD.size)) == HEAD.size:
            mark, chunk, frames, sound, latents, total = HEAD.unpack(head)
            body = file.read(frames + sound + latents)
            if mark != MARK or len(body) < frames + sound + latents or zlib.crc32(body) != total:
                return
            yield Record(
                chunk=chunk,
                frames=body[:frames],
                sound=body[frames : frames + sound],
                latents=body[frames + sound :],
            )
