"""What is made of a job so far, in a folder of its own: finished segments, and the chunks since.

Each chunk is on the disk before it counts. A new attempt takes over what an earlier one left, in a
folder that bears its own fence, so that an attempt that does not know yet that it is over writes to
files that nobody reads. Layout of `<root>/<job id>.<fence>/`:

  layout.json       what the files are made for; other files than these are not taken over
  s00003.mp4        the pictures of segment 3; s00003.log its sound and latents: it is whole
  j00004.log        the segment under way: pictures, sound and latents of its chunks

What it is not: the encoding (segments.py) or the result (artifacts.py).
"""

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec
import numpy as np

from onbeat.server.jobs import journal
from onbeat.server.jobs.encode import Pictures, Sound
from onbeat.server.jobs.file_store import force
from onbeat.server.jobs.formats import Format
from onbeat.server.jobs.job import Job, JobRequest
from onbeat.server.jobs.journal import JournalFile, Record
from onbeat.server.jobs.segments import KINDS, SegmentWriter, segment_chunks

LAYOUT = "layout.json"
TEMPORARY = ".tmp"


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """All that the bytes in the folder depend on."""

    version: int = 1
    request: JobRequest
    chunk_frames: int
    sample_rate: int
    segment_chunks: int
    weights: str = ""
    """A hash of the model's; empty if it has none."""
    kind: Format = "mp4"


def layout_of(
    request: JobRequest, chunk_frames: int, sample_rate: int, weights: str = ""
) -> Layout:
    return Layout(
        request=request,
        chunk_frames=chunk_frames,
        sample_rate=sample_rate,
        segment_chunks=segment_chunks(chunk_frames, request.fps),
        kind=request.format,
        weights=weights,
    )


class Workspace:
    """The folder of one attempt. Use as a context manager; `remove` it once the job has ended."""

    def __init__(self, root: Path, job: Job, layout: Layout) -> None:
        """Takes over what there is. Raises OSError."""
        self._root, self._job, self.layout = root, job, layout
        self.kind = KINDS[layout.kind]
        self.folder = root / f"{job.id}.{job.fence}"
        self._segment: SegmentWriter | None = None
        self._journal: JournalFile | None = None
        self.of_other_weights = 0
        """How many chunks an earlier attempt left that other weights have made."""
        self.chunks = self._take_over()
        """How many chunks are on the disk, from the first one on."""
        if self.chunks and self._is_end(self.chunks):
            self._complete((self.chunks - 1) // self._each)

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What is on the disk stays. Idempotent."""
        for part in (self._segment, self._journal):
            if part is not None:
                part.close()
        self._segment = self._journal = None

    def clear(self) -> None:
        """Forgets all chunks: the job begins at its first one."""
        self.close()
        shutil.rmtree(self.folder)
        self._make()
        self.chunks = 0

    def remove(self) -> None:
        """Nothing of the job stays. Idempotent."""
        self.close()
        forget(self._root, self._job.id)

    # ---- chunks --------------------------------------------------------------------------------

    def add(self, frames: Pictures, sound: Sound, latents: bytes) -> None:
        """The next chunk; on the disk when this returns. frames uint8 [f, height * 3 // 2, width];
        sound int16 [samples]. Raises OSError."""
        if self._segment is None:
            self._begin(self.chunks // self._each)
        assert self._segment is not None and self._journal is not None
        record = Record(
            chunk=self.chunks,
            frames=frames.tobytes(),
            sound=sound.astype("<i2", copy=False).tobytes(),
            latents=latents,
        )
        self._journal.append(record)
        self._segment.write(self._cut(frames, self.chunks))
        self.chunks += 1
        if self._is_end(self.chunks):
            self._finish((self.chunks - 1) // self._each)

    def latents(self, most: int) -> list[bytes]:
        """Of the newest chunks, oldest first."""
        first = max(0, self.chunks - most)
        numbers = range(first // self._each, -(-self.chunks // self._each))
        found = (record for number in numbers for record in self._records(number))
        return [record.latents for record in found if record.chunk >= first]

    def segments(self) -> list[Path]:
        """Once all chunks are there."""
        return [self._path(number) for number in range(self._whole)]

    def sound(self) -> Iterator[Sound]:
        """By segment."""
        for number in range(self._whole):
            data = b"".join(record.sound for record in journal.read(self._log(number)))
            yield np.frombuffer(data, "<i2")

    # ---- segments ------------------------------------------------------------------------------

    @property
    def _each(self) -> int:
        return self.layout.segment_chunks

    @property
    def _total(self) -> int:
        """Chunks of the whole job."""
        return -(-self.layout.request.frames // self.layout.chunk_frames)

    @property
    def _whole(self) -> int:
        """Finished segments."""
        return self._total_segments if self.chunks >= self._total else self.chunks // self._each

    @property
    def _total_segments(self) -> int:
        return -(-self._total // self._each)

    def _is_end(self, chunks: int) -> bool:
        return chunks % self._each == 0 or chunks == self._total

    def _cut(self, frames: Pictures, chunk: int) -> Pictures:
        """Without what lies behind the last frame that was asked for."""
        return frames[: max(0, self.layout.request.frames - chunk * self.layout.chunk_frames)]

    def _begin(self, number: int) -> None:
        """Opens a segment, with the chunks of it that are there."""
        draft = self._path(number).with_suffix(self.kind.suffix + TEMPORARY)
        self._segment = self.kind.writer(draft, self.layout.request)
        request = self.layout.request
        for record in journal.read(self._open_log(number)):
            shape = (-1, request.height * 3 // 2, request.width)
            frames = np.frombuffer(record.frames, np.uint8).reshape(shape)
            self._segment.write(self._cut(frames, record.chunk))
        self._journal = JournalFile(self._open_log(number))

    def _complete(self, number: int) -> None:
        """An attempt that was ended with all chunks of a segment may not have ended the segment."""
        if self._open_log(number).exists():
            self._begin(number)
            self._finish(number)

    def _finish(self, number: int) -> None:
        """The segment under way is whole: its pictures, then its log, then no journal."""
        assert self._segment is not None
        self._segment.finish()
        self.close()
        path, log, opened = self._path(number), self._log(number), self._open_log(number)
        _settle(path.with_suffix(self.kind.suffix + TEMPORARY), path)
        kept = b"".join(r.without_frames().packed() for r in journal.read(opened))
        _write(log, kept)
        opened.unlink()

    def _records(self, number: int) -> Iterator[Record]:
        return journal.read(self._log(number) if number < self._whole else self._open_log(number))

    def _path(self, number: int) -> Path:
        return self.folder / f"s{number:05}{self.kind.suffix}"

    def _log(self, number: int) -> Path:
        return self.folder / f"s{number:05}.log"

    def _open_log(self, number: int) -> Path:
        return self.folder / f"j{number:05}.log"

    # ---- taking over ---------------------------------------------------------------------------

    def _make(self) -> None:
        self.folder.mkdir(parents=True)
        _write(self.folder / LAYOUT, msgspec.json.encode(self.layout))

    def _take_over(self) -> int:
        """Copies what the furthest earlier attempt has; how many chunks those are."""
        earlier = [f for f in folders(self._root, self._job.id) if f != self.folder]
        shutil.rmtree(self.folder, ignore_errors=True)
        self._make()
        fitting = [folder for folder in earlier if self._layout(folder) == self.layout]
        others = (folder for folder in earlier if self._has_other_weights(folder))
        self.of_other_weights = max(map(self._count, others), default=0)
        chunks = self._adopt(max(fitting, key=self._count)) if fitting else 0
        for folder in earlier:
            shutil.rmtree(folder, ignore_errors=True)
        return chunks

    def _layout(self, folder: Path) -> Layout | None:
        """None if it cannot be read: the attempt ended while it was made."""
        try:
            return msgspec.json.decode((folder / LAYOUT).read_bytes(), type=Layout)
        except (OSError, msgspec.MsgspecError):
            return None

    def _has_other_weights(self, folder: Path) -> bool:
        found = self._layout(folder)
        if found is None or found == self.layout:
            return False
        return msgspec.structs.replace(found, weights=self.layout.weights) == self.layout

    def _count(self, folder: Path) -> int:
        """Chunks in a folder."""
        number = self._count_segments(folder)
        chunks = min(number * self._each, self._total)
        return chunks + sum(1 for _ in journal.read(folder / self._open_log(number).name))

    def _count_segments(self, folder: Path) -> int:
        number = 0
        names = self._path, self._log
        while all((folder / name(number).name).is_file() for name in names):
            number += 1
        return number

    def _adopt(self, folder: Path) -> int:
        """Finished files are never written again, so a second name will do; the open journal is
        copied as far as it is whole."""
        number = self._count_segments(folder)
        for index in range(number):
            for path in (self._path(index), self._log(index)):
                _link(folder / path.name, path)
        chunks = min(number * self._each, self._total)
        opened = list(journal.read(folder / self._open_log(number).name))
        if opened:
            _write(self._open_log(number), b"".join(record.packed() for record in opened))
        force(self.folder)
        return chunks + len(opened)


def folders(root: Path, job_id: str) -> list[Path]:
    """Of all attempts of a job."""
    return sorted(root.glob(f"{job_id}.*")) if root.is_dir() else []


def forget(root: Path, job_id: str) -> None:
    """Removes what was made of a job that has ended. Idempotent."""
    for folder in folders(root, job_id):
        shutil.rmtree(folder, ignore_errors=True)


def sweep(root: Path, alive: Callable[[], Collection[str]]) -> None:
    """Removes the folders of all jobs but those that are `alive` afterwards: whoever has a folder
    had its row before."""
    found = list(root.iterdir()) if root.is_dir() else []
    ids = alive() if found else ()
    for folder in found:
        if folder.name.rpartition(".")[0] not in ids:
            shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    draft = path.with_name(path.name + TEMPORARY)
    draft.write_bytes(data)
    _settle(draft, path)


def _settle(draft: Path, path: Path) -> None:
    """A written file gets its name, for good."""
    force(draft)
    os.replace(draft, path)
    force(path.parent)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without second names
        shutil.copyfile(source, target)
        force(target)
