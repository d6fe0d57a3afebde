"""A result made in one go, without a server: the same segments, and so the same bytes, as a job's.

They lie in a temporary folder beside the target. What it is not: a job's, which survives the end of
its process (workspace.py).
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from onbeat.server.jobs.encode import Pictures, Sound
from onbeat.server.jobs.formats import Format
from onbeat.server.jobs.job import JobRequest
from onbeat.server.jobs.segments import KINDS, SegmentWriter, segment_chunks


class Draft:
    """Use as a context manager; nothing but the target stays."""

    def __init__(
        self,
        target: Path,
        request: JobRequest,
        *,
        format: Format,
        chunk_frames: int,
        sample_rate: int,
    ) -> None:
        """Raises OSError."""
        self._target, self._request, self._rate = target, request, sample_rate
        self._kind = KINDS[format]
        self._each = segment_chunks(chunk_frames, request.fps)
        self._folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        self._segment: SegmentWriter | None = None
        self._segments: list[Path] = []
        self._samples: list[int] = []
        self._sound = (self._folder / "sound").open("w+b")
        self._chunks = self.frames = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._segment is not None:
            self._segment.close()
        self._sound.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def write(self, frames: Pictures, audio: Sound) -> None:
        """The next chunk. Raises OSError."""
        if self._chunks % self._each == 0:
            self._next()
        assert self._segment is not None
        kept = frames[: self._request.frames - self.frames]
        self._segment.write(kept)
        self._sound.write(audio.astype("<i2", copy=False).tobytes())
        self._samples[-1] += len(audio)
        self.frames += len(kept)
        self._chunks += 1

    def finish(self) -> None:
        """The target is whole, under its name, when this returns. Raises OSError."""
        assert self._segment is not None, "a result without a chunk"
        self._segment.finish()
        part = self._folder / "whole"
        self._kind.join(
            self._request, self._segments, self._by_segment(), self._rate, part, lambda: None
        )
        part.replace(self._target)

    def _next(self) -> None:
        if self._segment is not None:
            self._segment.finish()
        path = self._folder / f"{len(self._segments):05}{self._kind.suffix}"
        self._segment = self._kind.writer(path, self._request)
        self._segments.append(path)
        self._samples.append(0)

    def _by_segment(self) -> Iterator[Sound]:
        self._sound.seek(0)
        for samples in self._samples:
            yield np.frombuffer(self._sound.read(2 * samples), "<i2")
