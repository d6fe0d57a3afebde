"""Results in a folder: written as `.part`, forced to disk, then renamed: complete or absent.

A power cut leaves the old state or the new one. What it is not: limits (keeping.py).
"""

import errno
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from onbeat.server.jobs.formats import RECORDING
from onbeat.server.jobs.keeping import Limits, check_writable
from onbeat.server.jobs.result_store import Entry, LocalFile

PART = ".part"


class FileStore:
    """One folder, made if need be. Servers with one list of jobs may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, part: Path, name: str, media_type: str) -> None:
        """Raises OSError; the name then holds what it held before."""
        self._folder.mkdir(parents=True, exist_ok=True)
        near = self._near(part)
        try:
            force(near)
            os.replace(near, self._folder / name)
        except OSError:
            if near != part:
                near.unlink(missing_ok=True)
            raise
        force(self._folder)
        part.unlink(missing_ok=True)

    def find(self, name: str) -> LocalFile | None:
        path = self._folder / name
        return LocalFile(path=path) if path.is_file() else None

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)

    def entries(self) -> Iterator[Entry]:
        """Files may vanish meanwhile; the folder is made anew if somebody removed it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):
                if path.name.endswith(PART) or not path.is_file():
                    continue
                found = path.stat()
                yield Entry(name=path.name, bytes=found.st_size, modified=found.st_mtime)

    def sweep(self, known: Collection[str]) -> None:
        for entry in self.entries():
            owner = entry.name.partition(".")[0]
            if owner not in known and not owner.startswith(RECORDING):
                self.remove([entry.name])

    def check_room(self, limits: Limits) -> None:
        check_writable(self._folder, limits)

    def _near(self, part: Path) -> Path:
        """The file in this folder's file system: itself, or a copy."""
        if part.parent == self._folder or part.stat().st_dev == self._folder.stat().st_dev:
            return part
        near = self._folder / (part.name.removesuffix(PART) + PART)
        try:
            shutil.copyfile(part, near)
        except OSError:
            near.unlink(missing_ok=True)
            raise
        return near


def bytes_in(folder: Path) -> int:
    """Of all files of a folder, which is made if it is gone; files may vanish meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def force(path: Path) -> None:
    """Forces a file, or the names in a folder, to disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot is as safe as it gets
            raise
    finally:
        os.close(descriptor)
