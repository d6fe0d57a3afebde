"""The tracks of all streams with an input, found by id, and filled with what the front sends.

A picture is written once, by the front into a slot of shared memory, and read once, here; its slot
goes back at once, whether its stream wants it or not, so that a busy engine holds none. Streams own
their tracks: one that is closed is forgotten. What it is not: the ring (ring.py).
"""

import weakref
from typing import TYPE_CHECKING

import numpy as np

from onbeat.server.engine.input_track import InputTrack, Picture
from onbeat.server.engine.messages import InputPicture, InputSound

if TYPE_CHECKING:
    from onbeat.models.spec import ModelSpec


def picture_bytes(width: int, height: int) -> int:
    """Size of an RGB picture in its slot."""
    return 3 * width * height


class InputStore:
    """Thread-safe: tracks are made by the tick thread and filled by another."""

    def __init__(self, spec: "ModelSpec") -> None:
        self._spec = spec
        self._tracks: weakref.WeakValueDictionary[str, InputTrack] = weakref.WeakValueDictionary()

    def track(self, stream_id: str) -> InputTrack:
        """A new, empty track, found by this id for as long as its stream keeps it."""
        spec = self._spec
        made = InputTrack(
            fps=spec.fps, chunk_frames=spec.chunk_frames, sample_rate=spec.sample_rate
        )
        self._tracks[stream_id] = made
        return made

    def see(self, command: InputPicture, data: bytes | memoryview) -> None:
        """`data`: the slot's bytes; they are copied here, and not needed any more afterwards."""
        tracks = self._of(command.streams)
        if tracks:
            spec = self._spec
            count = picture_bytes(spec.width, spec.height)
            picture: Picture = np.frombuffer(data, np.uint8, count).copy()
            picture = picture.reshape(spec.height, spec.width, 3)
            for track in tracks:
                track.see(command.at, picture)

    def hear(self, command: InputSound) -> None:
        sound = np.frombuffer(command.samples, "<i2").astype(np.int16, copy=False)
        for track in self._of(command.streams):
            track.hear(command.at, sound)

    def _of(self, streams: list[str]) -> list[InputTrack]:
        return [track for s in streams if (track := self._tracks.get(s)) is not None]
