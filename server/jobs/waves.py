"""A job's sound alone, as the model made it: 16 bit mono WAV at the model's rate, with tags."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import av
from av.container import OutputContainer

from onbeat.server.jobs.encode import Check, Sound, sound_of, tags_of
from onbeat.server.jobs.job import JobRequest


class WaveSound:
    """Samples to a container of the format `wav`."""

    def __init__(self, out: OutputContainer, rate: int) -> None:
        self._out, self._rate, self._samples = out, rate, 0
        self._stream: Any = out.add_stream("pcm_s16le", rate=rate, layout="mono")

    def write(self, samples: Sound) -> None:
        if len(samples):
            frame = sound_of(samples, self._samples, self._rate)
            self._samples += len(samples)
            self._out.mux(self._stream.encode(frame))

    def finish(self) -> None:
        self._out.mux(self._stream.encode(None))


def join_wav(
    request: JobRequest,
    segments: Sequence[Path],
    sound: Iterable[Sound],
    sample_rate: int,
    target: Path,
    check: Check,
) -> None:
    """The sound of all segments; their pictures are for the stills."""
    left = request.frames * sample_rate // request.fps
    with av.open(str(target), "w", format="wav", options={"rf64": "auto"}) as out:
        out.metadata.update(tags_of(request))
        voice = WaveSound(out, sample_rate)
        for samples in sound:
            check()
            voice.write(samples[:left])
            left -= min(left, len(samples))
        voice.finish()
