"""Where decoded chunks are put: the seam to the shared-memory ring, and a store in plain memory.

Layout of a slot: I420 frames, int16 audio, then the chunk's final latents (modalities in the
model's order, float32). The engine writes a slot once; the reader releases it.
"""

import threading
from typing import Protocol

import numpy as np
import numpy.typing as npt

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.messages import ChunkReady


class SlotWriter(Protocol):
    """Free slots and their bytes. Thread-safe."""

    @property
    def total(self) -> int: ...

    @property
    def used(self) -> int: ...

    def acquire(self) -> tuple[int, memoryview] | None:
        """A free slot and its bytes, or None if the reader is behind."""

    def release(self, index: int) -> None:
        """Gives a slot back, once."""


def latent_bytes(spec: ModelSpec) -> int:
    return 4 * sum(m.tokens * m.dim for m in spec.modalities)


def slot_bytes(spec: ModelSpec) -> int:
    """Size of one chunk in the ring."""
    pictures = spec.chunk_frames * spec.height * 3 // 2 * spec.width
    return pictures + 2 * spec.chunk_samples + latent_bytes(spec)


def read_slot(
    data: memoryview, event: ChunkReady, width: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16], bytes]:
    """Copies of the frames [f, height * 3 // 2, width], the audio [samples] and the latents."""
    pixels = event.frames * event.frame_bytes
    sound = pixels + 2 * event.samples
    frames = np.frombuffer(data, np.uint8, pixels).reshape(event.frames, -1, width).copy()
    audio = np.frombuffer(data, np.int16, event.samples, offset=pixels).copy()
    return frames, audio, bytes(data[sound : sound + event.latent_bytes])


class MemorySlots:
    """Slots in this process's memory."""

    def __init__(self, *, slots: int, slot_bytes: int) -> None:
        self._data = [memoryview(bytearray(slot_bytes)) for _ in range(slots)]
        self._free = set(range(slots))
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        return len(self._data)

    @property
    def used(self) -> int:
        with self._lock:
            return len(self._data) - len(self._free)

    def acquire(self) -> tuple[int, memoryview] | None:
        with self._lock:
            if not self._free:
                return None
            index = self._free.pop()
        return index, self._data[index]

    def release(self, index: int) -> None:
        with self._lock:
            assert index not in self._free, f"slot {index} released twice"
            self._free.add(index)

    def read(self, index: int) -> memoryview:
        return self._data[index]
