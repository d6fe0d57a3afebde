"""Live streams and jobs on the real engine for the benchmarks of the engine: opened, read,
counted. Events are taken as they come; every chunk is copied out and its slot freed.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from onbeat.models.spec import CausalModel
from onbeat.server.engine.local import LocalEngine
from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    CloseStream,
    EngineDown,
    EngineReady,
    EngineStats,
    OpenStream,
    StreamEnded,
    StreamOpened,
)
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.vocabulary import StreamKind

JOIN_SECONDS = 0.037
"""Between two streams joining; not a divisor of a chunk."""
START_SECONDS = 60.0


@dataclass(slots=True)
class Seen:
    """Everything that an engine said, in order."""

    ready: list[ChunkReady] = field(default_factory=list)
    dropped: list[ChunkDropped] = field(default_factory=list)
    stats: list[EngineStats] = field(default_factory=list)
    ended: list[StreamEnded] = field(default_factory=list)

    def due(self, start: float, end: float, kind: str) -> tuple[list[ChunkReady], int]:
        """Chunks of streams whose name begins with `kind` that were due between two instants, and
        how many were due but dropped."""
        made = [e for e in self.ready if e.stream_id.startswith(kind)]
        made = [e for e in made if start <= e.playout_at < end]
        lost = [e for e in self.dropped if e.stream_id.startswith(kind)]
        return made, sum(start <= e.playout_at < end for e in lost)

    def on_time(self, start: float, end: float, kind: str) -> float:
        made, lost = self.due(start, end, kind)
        return sum(e.on_time for e in made) / max(1, len(made) + lost)


class Load:
    """One engine and its reader, for one measurement."""

    def __init__(self, model: CausalModel, settings: EngineSettings) -> None:
        self.engine = LocalEngine(model, settings, slots=4 * (settings.max_streams + 8))
        self.seen = Seen()
        self.kept: dict[str, list[bytes]] = defaultdict(list)
        """Frames and sound of the streams named in `keep`."""
        self.keep: set[str] = set()
        self.open: set[str] = set()
        self.engine.start()
        self.ready = self._announced()

    def _announced(self) -> EngineReady:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            event = self.engine.receive(0.5)
            if isinstance(event, EngineReady):
                return event
        raise RuntimeError(f"the engine was not ready in {START_SECONDS:.0f} s")

    def start(self, names: Iterable[str], kind: StreamKind = "live", **more: object) -> None:
        """Opens streams one after the other, reading meanwhile."""
        for i, name in enumerate(names):
            values = {"prompt": "a red ball bouncing over the sea", "seed": i, **more}
            self.engine.send(OpenStream(stream_id=name, kind=kind, **values))  # type: ignore[arg-type]
            self.read(JOIN_SECONDS * (0.5 + (0.618 * i) % 1.0))

    def stop(self, names: Iterable[str]) -> None:
        for name in names:
            self.engine.send(CloseStream(stream_id=name))

    def read(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Takes events for `seconds`, or until something is true."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not until():
            self._take(min(left, 0.05))

    def _take(self, timeout: float) -> None:
        match self.engine.receive(timeout):
            case ChunkReady() as event:
                payload = self.engine.take(event)
                self.seen.ready.append(event)
                if event.stream_id in self.keep:
                    data = np.ascontiguousarray(payload.frames).tobytes()
                    self.kept[event.stream_id].append(data + payload.audio.tobytes())
            case ChunkDropped() as event:
                self.seen.dropped.append(event)
            case EngineStats() as event:
                self.seen.stats.append(event)
            case StreamOpened(stream_id=name):
                self.open.add(name)
            case StreamEnded(stream_id=name) as event:
                self.open.discard(name)
                self.seen.ended.append(event)
            case EngineDown(reason=reason):
                raise RuntimeError(reason)
            case _:
                pass

    def busy(self, start: float, end: float) -> float:
        """Mean share of the compute lane at work."""
        shares = [s.busy_ratio for s in self.seen.stats if start <= s.at < end]
        return sum(shares) / max(1, len(shares))

    def close(self) -> None:
        """Raises RuntimeError if the engine leaks a page."""
        self.engine.close()
        assert self.engine.engine is not None
        self.engine.engine.check_integrity()
        if self.engine.engine.pool.used:
            raise RuntimeError(f"{self.engine.engine.pool.used} pages leaked")
