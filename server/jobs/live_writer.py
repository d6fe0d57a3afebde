"""Chunks to a stream that somebody plays while it grows: fragmented MP4, WebM or WAV.

Written in order, without going back. What it is not: files that are complete or absent (draft.py,
workspace.py).
"""

from types import TracebackType
from typing import Any, Protocol, Self

import av

from onbeat.server.jobs.encode import H264, VP9, Pictures, Sound, Voice, add_pictures, picture_of
from onbeat.server.jobs.encode import tags_of as tags
from onbeat.server.jobs.formats import Format
from onbeat.server.jobs.job import JobRequest
from onbeat.server.jobs.waves import WaveSound

LIVE: tuple[Format, ...] = ("mp4", "webm", "wav")
CODECS = {"mp4": H264, "webm": VP9}


class Stream(Protocol):
    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...


class _Pipe:
    """What libav may do to a stream: write. Keeps the error, which libav would forget."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            self.error = error
            raise
        return len(data)


class LiveWriter:
    """Use as a context manager; the stream is complete once `finish` has returned.

    sample_rate: of the chunks' sound, Hz. More frames or samples than asked for are cut off.
    """

    def __init__(
        self, stream: Stream, request: JobRequest, sample_rate: int, format: Format
    ) -> None:
        assert format in LIVE, f"{format} cannot be written as it comes"
        self._request, self._pipe = request, _Pipe(stream)
        codec = CODECS.get(format)
        self._out: Any = av.open(
            self._pipe, "w", format=format, options=codec.live if codec else {}
        )
        self._out.metadata.update(tags(request))
        self._video = add_pictures(self._out, request, codec) if codec else None
        self._voice: Voice | WaveSound | None = None
        if codec is None:
            self._voice = WaveSound(self._out, sample_rate)
        elif request.audio:
            self._voice = Voice(self._out, sample_rate, codec)
        self._samples_left = request.frames * sample_rate // request.fps
        self.frames = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pipe.error is None:  # nobody is there to read the end either
            self._out.close()

    def write(self, frames: Pictures, audio: Sound) -> None:
        """The next chunk. Raises OSError: BrokenPipeError if the reader has gone."""
        try:
            for picture in frames[: self._request.frames - self.frames]:
                if self._video is not None:
                    frame = picture_of(picture, self.frames, self._request.fps)
                    self._out.mux(self._video.encode(frame))
                self.frames += 1
            if self._voice is not None:
                self._voice.write(audio[: self._samples_left])
                self._samples_left -= min(self._samples_left, len(audio))
        finally:
            self._raise()

    def finish(self) -> None:
        """Raises OSError."""
        try:
            if self._video is not None:
                self._out.mux(self._video.encode(None))
            if self._voice is not None:
                self._voice.finish()
            self._out.close()
        finally:
            self._raise()

    def _raise(self) -> None:
        if self._pipe.error is not None:
            raise self._pipe.error
