"""The seam between the front and an engine: in-process (tests), subprocess (default), remote later.

Implementations: `onbeat.server.engine.local.LocalEngine` (a thread, same process) and
`onbeat.server.engine.process.EngineProcess` (own process, restarted when it dies; open live streams
go on from their snapshot, job streams end with reason "engine_lost").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from onbeat.server.engine.messages import ChunkReady, Command, Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPayload:
    """What lay in the ring: `frames` uint8 [f, height * 3 // 2, width], `audio` int16 [samples];
    `latents`: the chunk's final ones, float32 in the model's order."""

    frames: npt.NDArray[np.uint8]
    audio: npt.NDArray[np.int16]
    latents: bytes = b""


class EngineClient(Protocol):
    def start(self) -> None:
        """Start the engine and return at once; `EngineReady` follows as an event."""

    def send(self, command: Command) -> None:
        """Never blocks. Thread-safe."""

    def feed(self, streams: Sequence[str], picture: npt.NDArray[np.uint8], at: float) -> bool:
        """Gives a picture that was taken at `at` (monotonic seconds), uint8 RGB [height, width, 3]
        at the model's size, to these streams. Never blocks; False if it was lost: the engine is
        not there or behind. Thread-safe. Sound is a command (`InputSound`)."""

    def receive(self, timeout: float) -> Event | None:
        """The next event, or None after `timeout` seconds. One reader thread only."""

    def take(self, event: ChunkReady) -> ChunkPayload:
        """Copies a chunk out of the ring and frees its slot. Call exactly once per ChunkReady, on
        the reader thread or any other."""

    def close(self) -> None:
        """Stops the engine; returns every resource. Idempotent."""
