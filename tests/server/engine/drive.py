"""Runs a real engine on a clock that only moves when told to, and collects what it says."""

from collections import Counter
from collections.abc import Callable

from onbeat.models.spec import CausalModel
from onbeat.server.engine.assemble import make_engine
from onbeat.server.engine.calibrate import given
from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    ControlApplied,
    EngineStats,
    Event,
    OpenStream,
    ReleaseSlot,
    StreamEnded,
    StreamRefused,
)
from onbeat.server.engine.page_copy import HostCopier
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.simulate.transfers import TimedTransfers
from onbeat.server.engine.slots import MemorySlots, read_slot, slot_bytes
from onbeat.server.vocabulary import StreamKind
from tests.server.engine.fake import FakeClock, FakeModel, Timed

SIZES = (1, 2, 3, 4, 6, 8, 12, 16)


def affine(first: float, each: float) -> Callable[[int], float]:
    """Seconds of a forward: `first` plus `each` for every row."""
    return lambda rows: first + each * rows


STEP_COST = affine(0.004, 0.002)


class Rig:
    """An engine, its clock and a reader that empties every slot at once unless `reading` is off."""

    def __init__(
        self,
        settings: EngineSettings | None = None,
        *,
        step_cost: Callable[[int], float] = STEP_COST,
        slots: int = 64,
        model: CausalModel | None = None,
        copy_seconds: float = 0.003,
    ) -> None:
        """`model`: another one than the fake. `copy_seconds`: of a full window."""
        self.clock = FakeClock()
        self.model = FakeModel(self.clock, step_cost)
        served = Timed(model, self.clock, step_cost) if model else self.model
        self.width = served.spec.width
        self.slots = MemorySlots(slots=slots, slot_bytes=slot_bytes(served.spec))
        self.copy_seconds = copy_seconds
        self.events: list[Event] = []
        self.latents: dict[tuple[str, int], bytes] = {}
        self.sound: dict[tuple[str, int], bytes] = {}
        self.reading = True
        self.engine = make_engine(
            served,
            settings or EngineSettings(decode_lane=False),
            self.slots,
            self._emit,
            self.clock,
            known=given(
                served.spec,
                compute=CostModel({n: step_cost(n) for n in SIZES}, margin=1.1),
                decode=CostModel({1: 0.002, 4: 0.006}, margin=1.1),
            ),
            transfers=self._transfers,
        )

    def _transfers(self, store: KVStore) -> TimedTransfers:
        self.store = store
        window = self.model.spec.window_chunks
        self.copier = HostCopier(store, window)
        transfers = TimedTransfers(self.copier, self.clock)
        transfers.bytes_per_second = window * transfers.page_bytes() / self.copy_seconds
        self.transfers = transfers
        return transfers

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, ChunkReady):
            data = self.slots.read(event.slot)
            _, audio, latents = read_slot(data, event, self.width)
            self.latents[event.stream_id, event.chunk] = latents
            self.sound[event.stream_id, event.chunk] = audio.tobytes()
            if self.reading:
                self.engine.submit(ReleaseSlot(slot=event.slot))

    def open(
        self, stream_id: str, kind: StreamKind = "live", prompt: str = "red ball", **more: object
    ) -> None:
        values = {"seed": 1, **more}
        self.engine.submit(
            OpenStream(stream_id=stream_id, kind=kind, prompt=prompt, **values)  # type: ignore[arg-type]
        )

    def run(self, seconds: float) -> None:
        """Ticks until `seconds` have passed on the engine's clock."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            if not self.engine.tick():
                pause = min(max(self.engine.wake_at - self.clock.now(), 1e-4), 0.01)
                self.clock.advance(min(pause, max(end - self.clock.now(), 1e-6)))

    def of(self, kind: type[Event], stream_id: str | None = None) -> list[Event]:
        return [
            e
            for e in self.events
            if isinstance(e, kind) and stream_id in (None, getattr(e, "stream_id", None))
        ]

    def ready(self, stream_id: str | None = None) -> list[ChunkReady]:
        return [e for e in self.of(ChunkReady, stream_id) if isinstance(e, ChunkReady)]

    def dropped(self, stream_id: str | None = None) -> list[ChunkDropped]:
        return [e for e in self.of(ChunkDropped, stream_id) if isinstance(e, ChunkDropped)]

    def refused(self) -> list[StreamRefused]:
        return [e for e in self.of(StreamRefused) if isinstance(e, StreamRefused)]

    def ended(self) -> dict[str, StreamEnded]:
        return {e.stream_id: e for e in self.of(StreamEnded) if isinstance(e, StreamEnded)}

    def applied(self) -> list[ControlApplied]:
        return [e for e in self.of(ControlApplied) if isinstance(e, ControlApplied)]

    def stats(self) -> list[EngineStats]:
        return [e for e in self.of(EngineStats) if isinstance(e, EngineStats)]

    def on_time_ratio(self, since: float = 0.0) -> float:
        """Of chunks due after `since` on the engine's clock."""
        ready = [e for e in self.ready() if e.playout_at >= since]
        missed = [e for e in self.dropped() if e.playout_at >= since]
        return sum(e.on_time for e in ready) / max(1, len(ready) + len(missed))

    def check(self) -> None:
        """What must hold after any scenario: chunks in order, each once, pages and slots back."""
        seen = Counter((e.stream_id, e.chunk) for e in self.ready())
        seen.update((e.stream_id, e.chunk) for e in self.dropped())
        assert all(n == 1 for n in seen.values()), seen.most_common(3)
        for stream_id in {e.stream_id for e in self.ready()}:
            order = [e.chunk for e in self.ready(stream_id)]
            assert order == sorted(order), (stream_id, order)
        self.engine.close()
        for event in self.engine_left():
            self.engine._obey(event, self.clock.now())
        self.engine.check_integrity()
        assert self.engine.pool.used == 0, self.engine.pool.used
        if self.reading:
            assert self.slots.used == 0, self.slots.used

    def engine_left(self) -> list[ReleaseSlot]:
        left = [c for c in self.engine._commands if isinstance(c, ReleaseSlot)]
        self.engine._commands.clear()
        return left
