"""Where results lie: `<folder>/<job id>.mp4`, `.webp` and `.jpg`, complete or absent.

A file is written as `.part`, forced to disk, then renamed. What it is not: encoding (encode.py).
"""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Literal

Variant = Literal["video", "thumbnail", "spritesheet"]

SUFFIX: dict[Variant, str] = {"video": ".mp4", "thumbnail": ".webp", "spritesheet": ".jpg"}
MEDIA_TYPE: dict[Variant, str] = {
    "video": "video/mp4",
    "thumbnail": "image/webp",
    "spritesheet": "image/jpeg",
}
PART = ".part"


class Artifacts:
    """One folder of finished files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, job_id: str, variant: Variant) -> Path:
        return self._folder / (job_id + SUFFIX[variant])

    def part(self, job_id: str, fence: int, variant: Variant) -> Path:
        """Where an attempt writes; no other attempt writes there."""
        self._folder.mkdir(parents=True, exist_ok=True)  # somebody may have removed it
        return self._folder / f"{job_id}.{fence}{SUFFIX[variant]}{PART}"

    def publish(self, part: Path, job_id: str, variant: Variant) -> None:
        """Makes a written file the result, at once and for good. Raises OSError."""
        force(part)
        os.replace(part, self.path(job_id, variant))
        force(self._folder)

    def remove(self, job_id: str) -> None:
        """Removes all files of a job. Idempotent."""
        for variant in SUFFIX:
            self.path(job_id, variant).unlink(missing_ok=True)

    def sweep(self, known: Collection[str]) -> None:
        """Removes what an ended process left: unfinished files, results of unknown jobs."""
        for path in self._folder.iterdir():
            if path.name.endswith(PART) or path.stem not in known:
                path.unlink(missing_ok=True)

    def size(self) -> int:
        """Bytes of all files."""
        return bytes_in(self._folder)


def bytes_in(folder: Path) -> int:
    """Of all files of a folder, which is made if it is gone; files may vanish meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def force(path: Path) -> None:
    """Forces a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
