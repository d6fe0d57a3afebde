"""A ring of fixed slots in memory shared by the front and the engine process.

The front makes an unnamed file and hands its descriptor to the engine, which sizes it once the
model is known; nothing with a name stays behind when a side is killed. The engine owns the free
list; the front tells it by `ReleaseSlot` when a slot has been read. Written once, read once.
"""

import mmap
import os
import tempfile
import threading


def anonymous_file(label: str) -> int:
    """A descriptor of an unnamed, growable file in memory where the system has that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(label)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Ring:
    """`slots` slots of `slot_bytes` bytes over a file; the descriptor stays the caller's."""

    def __init__(self, descriptor: int, *, slots: int, slot_bytes: int) -> None:
        self.slots = slots
        self.slot_bytes = slot_bytes
        size = slots * slot_bytes
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)
        self._map = mmap.mmap(descriptor, size)
        self._view = memoryview(self._map)

    def slot(self, index: int) -> memoryview:
        """The bytes of one slot. Release the view before `close`."""
        assert 0 <= index < self.slots, f"slot {index} of {self.slots}"
        start = index * self.slot_bytes
        return self._view[start : start + self.slot_bytes]

    def read(self, index: int, size: int) -> bytes:
        """A copy of the first `size` bytes of a slot."""
        assert size <= self.slot_bytes, f"{size} bytes in a slot of {self.slot_bytes}"
        start = index * self.slot_bytes
        return bytes(self._view[start : start + size])

    def close(self) -> None:
        self._view.release()
        self._map.close()


class RingSlots:
    """The engine's side: which slots are free. Thread-safe."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._free = list(range(ring.slots))
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        return self._ring.slots

    @property
    def used(self) -> int:
        with self._lock:
            return self._ring.slots - len(self._free)

    def acquire(self) -> tuple[int, memoryview] | None:
        """A free slot and its bytes, or None if the reader is behind."""
        with self._lock:
            if not self._free:
                return None
            index = self._free.pop()
        return index, self._ring.slot(index)

    def release(self, index: int) -> None:
        with self._lock:
            assert index not in self._free, f"slot {index} released twice"
            self._free.append(index)
