"""The loop of the simulation: a real engine on virtual devices, driven from event to event.

Commands come by `submit` or at planned instants (`at`), events are kept. A restart closes the
engine and makes a new one, with the streams that the registry of the front remembers. What it is
not: a workload (workload.py) or a count of what came of it (tally.py).
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.engine import Engine
from onbeat.server.engine.messages import ChunkReady, Command, Event
from onbeat.server.engine.pool import KVPool, pages_per_stream
from onbeat.server.engine.registry import StreamRegistry
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.simulate.curves import Curve
from onbeat.server.engine.simulate.device import (
    Noise,
    VirtualClock,
    VirtualCosts,
    VirtualExecutor,
    VirtualLane,
)
from onbeat.server.engine.simulate.faults import Fault, Faults
from onbeat.server.engine.simulate.transfers import NoCopier, TimedTransfers
from onbeat.server.engine.slots import MemorySlots, slot_bytes

IDLE_SECONDS = 1.0
"""The real loop looks around more often than that; here nothing changes without an event."""
HOST_SECONDS = 1e-5
"""What a tick that does nothing and may not sleep costs, so that time never stands still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A simulated device. `noise`: forwards and decodes take up to this share more or less."""

    compute: Curve
    decode: Curve = field(default_factory=lambda: Curve(seconds={1: 0.0}))
    noise: float = 0.0
    slots: int = 1024
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 <= self.noise < 1.0:
            raise ValueError(f"noise: {self.noise}; allowed: 0 to below 1")


def simulated_spec(
    *, chunk_frames: int = 12, fps: int = 16, steps: int = 4, window_chunks: int = 3
) -> ModelSpec:
    """A model without tensors: chunks of `chunk_frames` / `fps` seconds in `steps` steps."""
    return ModelSpec(
        name="simulated",
        modalities=(),
        width=2,
        height=2,
        fps=fps,
        chunk_frames=chunk_frames,
        sample_rate=fps,
        layers=1,
        heads=1,
        head_dim=1,
        cond_dim=1,
        prefix_tokens=1,
        window_chunks=window_chunks,
        default_steps=steps,
        first_chunk_steps=1,
        max_steps=max(steps, 8),
        kept_chunks=0,
        context_noise=0.0,
    )


class World:
    """`events` holds everything that the engines said, `ticks` how often they ticked."""

    def __init__(
        self, machine: Machine, spec: ModelSpec, settings: EngineSettings, seed: int = 0
    ) -> None:
        self.machine, self.spec, self.settings = machine, spec, settings
        self.clock = VirtualClock()
        self.events: list[Event] = []
        self.ticks = 0
        self.restarts = 0
        self.faults = Faults(machine.faults)
        self._noise = Noise(machine.noise, seed)
        self._decode_noise = Noise(machine.noise, seed + 1)
        self._planned: list[tuple[float, int, Command]] = []
        self._count = 0
        self.registry = StreamRegistry(spec.window_chunks)
        self.slots = MemorySlots(slots=machine.slots, slot_bytes=slot_bytes(spec))
        self.executors: list[VirtualExecutor] = []
        self.engine = self._build()

    def _build(self) -> Engine:
        machine, settings = self.machine, self.settings
        costs = VirtualCosts(machine.compute, machine.decode)
        most = max(settings.max_rows, settings.max_streams + settings.max_jobs)
        executor = VirtualExecutor(self.clock, machine.compute, self._noise, self.faults, most)
        self.lane = VirtualLane(
            self.clock,
            machine.decode,
            costs.decode,
            self._decode_noise,
            self.faults,
            settings.max_decode_rows,
        )
        self.executors.append(executor)
        self._transfers = TimedTransfers(NoCopier(), self.clock)
        streams = settings.active_streams + settings.max_jobs
        return Engine(
            self.spec,
            settings,
            pool=KVPool(settings.pages or streams * pages_per_stream(self.spec)),
            executor=executor,
            lane=self.lane,
            costs=costs,
            slots=self.slots,
            emit=self._emit,
            clock=self.clock,
            transfers=self._transfers,
        )

    def submit(self, command: Command) -> None:
        self.registry.note(command)
        self.engine.submit(command)

    def at(self, instant: float, command: Command) -> None:
        """Submits `command` when the clock reaches `instant`."""
        self._count += 1
        heapq.heappush(self._planned, (instant, self._count, command))

    def _emit(self, event: Event) -> None:
        """Readers take a chunk out of its slot at once."""
        self.events.append(event)
        if isinstance(event, ChunkReady):
            self.slots.release(event.slot)
            self.registry.delivered(event, b"")
        else:
            self.registry.observe(event)

    def run(self, until: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Ticks until the clock is at `until`, or `stop` says so after a tick that did nothing."""
        while self.clock.at < until:
            self._inputs()
            self.ticks += 1
            if not self.engine.tick():
                if stop():
                    return
                self._sleep(until)

    def _inputs(self) -> None:
        now = self.clock.at
        while self._planned and self._planned[0][0] <= now:
            self.submit(heapq.heappop(self._planned)[2])
        if jump := self.faults.take("jump", now):
            self.clock.advance(jump.seconds)
        if restart := self.faults.take("restart", now):
            self._restart(restart.seconds)

    def _restart(self, seconds: float) -> None:
        """The engine is gone with all it held; the slots are the front's and outlive it."""
        self.restarts += 1
        self._registry_lost()
        self.clock.advance(seconds)
        self.engine = self._build()
        for command in self.registry.reopen():
            self.engine.submit(command)

    def _registry_lost(self) -> None:
        emit, registry = self.events.append, self.registry
        self.engine.delivery.close()
        for ended in registry.engine_lost(hopeless=False):
            emit(ended)

    def _sleep(self, until: float) -> None:
        now = self.clock.at
        instant = min(
            self.engine.wake_at,
            self.lane.next_at,
            self._transfers.next_at,
            self._planned[0][0] if self._planned else float("inf"),
            self.faults.next_at("jump", "restart"),
            now + IDLE_SECONDS,
            until,
        )
        self.clock.at = max(instant, now + HOST_SECONDS)

    def close(self) -> None:
        """Ends the engine and asserts that nothing is left behind."""
        self.engine.close()
        self.engine.check_integrity()
        assert self.engine.pool.used == 0, f"{self.engine.pool.used} pages left"
        assert self.slots.used == 0, f"{self.slots.used} slots left"


def busy(executors: Sequence[VirtualExecutor]) -> float:
    return sum(e.busy for e in executors)
