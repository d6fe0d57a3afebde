"""The engine as a thread of this process: for tests, benchmarks and one-off generation.

Same calls and events as the engine process, with slots in plain memory.
"""

import gc
import logging
import queue
import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from onbeat.models.spec import CausalModel
from onbeat.server.engine.assemble import make_engine
from onbeat.server.engine.calibration import CalibrationCache
from onbeat.server.engine.client import ChunkPayload
from onbeat.server.engine.engine import Engine
from onbeat.server.engine.messages import (
    ChunkReady,
    Command,
    EngineDown,
    Event,
    InputPicture,
    InputSound,
    ReleaseSlot,
    Shutdown,
)
from onbeat.server.engine.perfetto import chrome_trace
from onbeat.server.engine.settings import EngineSettings, MonotonicClock
from onbeat.server.engine.slots import MemorySlots, read_slot, slot_bytes

log = logging.getLogger(__name__)
DEFAULT_SLOTS = 64


class LocalEngine:
    """An `EngineClient` on a thread."""

    def __init__(
        self,
        model: CausalModel,
        settings: EngineSettings | None = None,
        *,
        slots: int = DEFAULT_SLOTS,
        cache: CalibrationCache | None = None,
    ) -> None:
        """`cache`: where cost tables are kept; without one the engine measures at every start."""
        self._model = model
        self._settings = settings or EngineSettings()
        self._slot_count, self._cache = slots, cache
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._early: list[Command] = []
        self._lock = threading.Lock()
        self._slots: MemorySlots | None = None
        self._engine: Engine | None = None
        self._width = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    @property
    def engine(self) -> Engine | None:
        """The engine itself, once it is warm; for tests that look inside."""
        return self._engine

    def start(self) -> None:
        self._thread.start()

    def send(self, command: Command) -> None:
        with self._lock:
            if self._engine is None:
                if not isinstance(command, InputSound):
                    self._early.append(command)
                return
        if isinstance(command, InputSound):
            self._engine.roster.inputs.hear(command)
        else:
            self._engine.submit(command)

    def feed(self, streams: Sequence[str], picture: npt.NDArray[np.uint8], at: float) -> bool:
        engine = self._engine
        if engine is not None:
            command = InputPicture(streams=list(streams), slot=0, at=at)
            engine.roster.inputs.see(command, picture.tobytes())
        return engine is not None

    def receive(self, timeout: float) -> Event | None:
        try:
            return self._events.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            return None

    def take(self, event: ChunkReady) -> ChunkPayload:
        assert self._slots is not None, "no chunk before the engine is ready"
        frames, audio, latents = read_slot(self._slots.read(event.slot), event, self._width)
        self.send(ReleaseSlot(slot=event.slot))
        return ChunkPayload(frames=frames, audio=audio, latents=latents)

    def latents(self, event: ChunkReady) -> bytes:
        """The chunk's final latents; call before `take`."""
        assert self._slots is not None, "no chunk before the engine is ready"
        return read_slot(self._slots.read(event.slot), event, self._width)[2]

    def trace(self, seconds: float) -> bytes:
        """What ran in the last seconds, as a trace file."""
        assert self._engine is not None, "nothing ran before the engine is ready"
        return chrome_trace(self._engine.trace.since(MonotonicClock().now() - seconds))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._thread.ident is not None:
            self.send(Shutdown())
            self._thread.join()

    def _run(self) -> None:
        try:
            engine = self._build()
            gc.collect()
            gc.freeze()  # what is there now stays; a full collection would stop all lanes
            engine.run()
        except Exception as error:  # the thread's last words; the reader decides what to do
            log.exception("the engine thread ended")
            reason = f"{type(error).__name__}: {error}"
            self._events.put(EngineDown(reason=reason, restarting=False))
        finally:
            gc.unfreeze()

    def _build(self) -> Engine:
        spec = self._model.spec
        self._width = spec.width
        self._slots = MemorySlots(slots=self._slot_count, slot_bytes=slot_bytes(spec))
        engine = make_engine(
            self._model, self._settings, self._slots, self._events.put, cache=self._cache
        )
        with self._lock:
            for command in self._early:
                engine.submit(command)
            self._engine = engine
        return engine
