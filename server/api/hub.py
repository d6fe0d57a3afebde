"""The one reader of the engine's events: a thread that hands each event to whom it concerns.

Sinks are called on the reader thread and must not block; who lives on the event loop wraps its sink
in `call_soon_threadsafe`. The hub also remembers the engine's state. It knows no asyncio.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from onbeat.server.engine.client import ChunkPayload, EngineClient
from onbeat.server.engine.messages import (
    ChunkReady,
    Command,
    EngineDown,
    EngineReady,
    EngineStats,
    Event,
)

log = logging.getLogger("onbeat.engine")

Sink = Callable[[Event, ChunkPayload | None], None]
EngineState = Literal["starting", "ready", "restarting", "failed"]

POLL_SECONDS = 0.2


class EngineHub:
    """Owns the engine client: starts it, reads it, closes it."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._sinks: dict[str, Sink] = {}
        self._listeners: list[Sink] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="engine-events", daemon=True)
        self.state: EngineState = "starting"
        self.ready: EngineReady | None = None
        """The last announcement; kept while the engine restarts."""
        self.stats: EngineStats | None = None
        self.restarts = 0
        self.reason: str | None = None

    @property
    def capacity_streams(self) -> int | None:
        """Live streams the engine would hold now; before its first report, as it announced."""
        if self.stats is not None:
            return self.stats.capacity_streams
        return self.ready.capacity_streams if self.ready else None

    def start(self) -> None:
        self._client.start()
        self._thread.start()

    def close(self) -> None:
        """Ends the reader, then the engine."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._client.close()

    def send(self, command: Command) -> None:
        """Never blocks. Thread-safe."""
        self._client.send(command)

    def feed(self, streams: Sequence[str], picture: npt.NDArray[np.uint8], at: float) -> bool:
        """Gives streams a picture (`EngineClient.feed`). Thread-safe."""
        return self._client.feed(streams, picture, at)

    def attach(self, stream_id: str, sink: Sink) -> None:
        """From now on the events of this stream, and the engine's going down, go to `sink`."""
        with self._lock:
            self._sinks[stream_id] = sink

    def detach(self, stream_id: str) -> None:
        with self._lock:
            self._sinks.pop(stream_id, None)

    def listen(self, sink: Sink) -> None:
        """All events of all streams and of the engine go to `sink` too, without payloads."""
        self._listeners.append(sink)

    def _read(self) -> None:
        while not self._stop.is_set():
            try:
                event = self._client.receive(POLL_SECONDS)
                if event is not None:
                    self._handle(event)
            except Exception:  # one bad event must not end all later ones
                log.exception("an event of the engine could not be read")
                self._stop.wait(POLL_SECONDS)

    def _handle(self, event: Event) -> None:
        payload = self._client.take(event) if isinstance(event, ChunkReady) else None
        self._note(event)
        for sink, given in self._targets(event, payload):
            try:
                sink(event, given)
            except Exception:  # a failing receiver must not stop the others
                log.exception("an event was not handled: %s", type(event).__name__)

    def _targets(
        self, event: Event, payload: ChunkPayload | None
    ) -> list[tuple[Sink, ChunkPayload | None]]:
        with self._lock:
            if isinstance(event, EngineDown):
                own = list(self._sinks.values())
            else:
                sink = self._sinks.get(getattr(event, "stream_id", ""))
                own = [sink] if sink else []
        return [(sink, payload) for sink in own] + [(sink, None) for sink in self._listeners]

    def _note(self, event: Event) -> None:
        match event:
            case EngineReady():
                self.ready, self.state = event, "ready"
                log.info("engine ready: %s, %d streams", event.model, event.capacity_streams)
            case EngineStats():
                self.stats = event
            case EngineDown(reason=reason, restarting=restarting):
                self.reason, self.stats = reason, None
                self.state = "restarting" if restarting else "failed"
                self.restarts += restarting
                log.warning("engine down: %s", reason)
