"""A simulated world with a front that reads when it is told to and an engine that can die.

As process.py does it: commands are noted by the registry and sent while there is an engine; events
wait in an inbox, which dies with the engine; a slot is free once its chunk has been read. Every
event goes through a ledger, every plan through a check. What it is not: rules (test_machine.py).
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.ahead import Planned, Planner
from onbeat.server.engine.device import Decoded, DecodeJob
from onbeat.server.engine.engine import Engine
from onbeat.server.engine.messages import (
    ChunkReady,
    Command,
    Event,
    ReleaseSlot,
    Shutdown,
    StreamOpened,
)
from onbeat.server.engine.policies import make_policy
from onbeat.server.engine.scheduler import Candidate, Policy
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.simulate.faults import Fault, FaultKind
from onbeat.server.engine.simulate.world import Machine, World
from onbeat.server.engine.slots import MemorySlots, slot_bytes
from onbeat.server.engine.streams import MAX_DROPS_IN_A_ROW, Stream
from tests.server.engine.checks import (
    check_clocks,
    check_engine,
    check_flow,
    check_plan,
    check_sleep,
    is_light,
)
from tests.server.engine.ledger import Ledger
from tests.server.engine.memory import Memory

SETTLED, WATCHED = 1.6, 6 * 0.2
"""Seconds; the second are 6 chunk lengths."""


class Watched(Planner):
    """Checks every plan that a tick gets, and that no stream's chunks are given up for ever."""

    def __init__(self, policy: Policy, engine: Engine) -> None:
        super().__init__(policy, engine.cost, engine.settings.max_rows)
        self._engine = engine
        self._given_up: dict[str, range] = {}
        """By stream: the last chunks that were dropped one after the other."""

    def plan(self, now: float, candidates: Sequence[Candidate]) -> Planned:
        planned = super().plan(now, candidates)
        plan = planned.plan
        check_clocks(self._engine, now)
        check_plan(now, planned.fitted, plan, self._engine.settings)
        chunks = {c.stream: c.chunk for c in candidates}
        for stream in plan.drops:
            chunk, row = chunks[stream], self._given_up.get(stream, range(0))
            row = range(row.start if row.stop == chunk else chunk, chunk + 1)
            assert len(row) <= MAX_DROPS_IN_A_ROW, f"{stream}: chunks {row} were never made"
            self._given_up[stream] = row
        return planned


class Stage(World):
    """`reading`: whether the front takes events as they come; `down_until`: when the next engine
    will be there, None while there is one."""

    def __init__(self, machine: Machine, spec: ModelSpec, settings: EngineSettings) -> None:
        self.ledger = Ledger(spec, settings)
        self.inbox: deque[Event] = deque()
        self.reading = True
        self.down_until: float | None = None
        self.injected: Counter[FaultKind] = Counter()
        self.condemned: set[str] = set()
        self._ended = False
        super().__init__(machine, spec, settings)

    def _build(self) -> Engine:
        engine = super()._build()
        self.condemned.clear()
        submit, poll = self._submitted(self.lane.submit), self._polled(self.lane.poll)
        self.lane.submit = submit  # type: ignore[method-assign, assignment]
        self.lane.poll = poll  # type: ignore[method-assign]
        self._transfers._copier = Memory(self.executors[-1], engine.pool)
        engine.planner = Watched(make_policy(self.settings), engine)
        return engine

    def _submitted(self, submit: Callable[[DecodeJob], None]) -> Callable[[DecodeJob], None]:
        """A chunk that is late already takes no slot."""

        def watched(job: DecodeJob) -> None:
            stream, now = self.engine.roster.streams.get(job.stream), self.clock.at
            if job.data is not None and stream is not None and stream.is_live:
                due = stream.playout_at(job.chunk, self.spec)
                assert due is None or now <= due, f"{job.stream}: {job.chunk}, {now - due} s late"
            submit(job)

        return watched

    def _polled(self, poll: Callable[[], list[Decoded]]) -> Callable[[], list[Decoded]]:
        """Remembers whose chunk could not be decoded."""

        def watched() -> list[Decoded]:
            results = poll()
            bad = (r.job.stream for r in results if r.error is not None and r.job.data is not None)
            self.condemned.update(bad)
            return results

        return watched

    # ---- what the front does -------------------------------------------------------------------

    def submit(self, command: Command) -> None:
        """Lost to an engine that is down, but for what the registry makes of it."""
        self.registry.note(command)
        self.ledger.sent(command, up=self.down_until is None)
        if self.down_until is None:
            self.engine.submit(command)

    def _emit(self, event: Event) -> None:
        self.ledger.emitted(event, self.clock.at)
        if isinstance(event, StreamOpened):
            chunk = self.engine.roster.streams[event.stream_id].chunk
            self.ledger.begins(event.stream_id, chunk)
        self.inbox.append(event)
        if self.reading:
            self.read()

    def read(self, most: int = 1 << 30) -> None:
        """Takes so many events out of the inbox; slots go back by a command."""
        for _ in range(min(most, len(self.inbox))):
            event = self.inbox.popleft()
            wanted = True
            if isinstance(event, ChunkReady):
                self.engine.submit(ReleaseSlot(slot=event.slot))
                wanted = event.stream_id in self.registry
                self.registry.delivered(event, b"")
            else:
                self.registry.observe(event)
            if wanted:
                self.ledger.read(event)

    # ---- what happens to the engine ------------------------------------------------------------

    def inject(self, kind: FaultKind, seconds: float = 0.0) -> None:
        self.injected[kind] += 1
        self.faults.add(Fault(at=self.clock.at, kind=kind, seconds=seconds))

    def crash(self, seconds: float) -> None:
        """The engine dies with its slots and all that nobody has read."""
        self._die()
        self.inbox.clear()
        for event in self.registry.engine_lost(hopeless=False):
            self.ledger.given_up(event)
        self.down_until = self.clock.at + seconds
        self.reading = True
        self.slots = MemorySlots(slots=self.machine.slots, slot_bytes=slot_bytes(self.spec))

    def _die(self) -> None:
        """Nothing is left of it but slots that nobody has read."""
        self.ledger.engine_dies()
        self.reading = False
        self.engine.close()
        self.ledger.engine_is_dead()
        self.engine.check_integrity()
        assert self.engine.pool.used == 0, f"{self.engine.pool.used} pages left"
        assert self.engine.pool.reserved == 0, f"{self.engine.pool.reserved} pages reserved"
        assert not self.engine.roster.streams and self.engine.delivery.idle
        assert self.engine.residency.buffers.used == 0, "host buffers left"
        self._take_releases()
        unread = sum(isinstance(e, ChunkReady) for e in self.inbox)
        assert self.slots.used == unread, f"{self.slots.used} slots used, {unread} unread"

    def _take_releases(self) -> None:
        """A process that ends takes no more commands; here the slots are looked at after it."""
        for command in self.engine._commands:
            if isinstance(command, ReleaseSlot):
                self.slots.release(command.slot)
        self.engine._commands.clear()

    def _rise(self) -> None:
        self.down_until = None
        self.engine = self._build()
        for command in self.registry.reopen():
            self.ledger.sent(command, up=True, again=True)
            self.engine.submit(command)

    # ---- time ----------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Lets the world go on; 0 is one tick at this instant."""
        until = self.clock.at + seconds
        if self.down_until is not None:
            self.clock.at = max(self.clock.at, min(until, self.down_until))
            if until < self.down_until:
                return
            self._rise()
        self.engine.tick()
        self.run(until)

    def _sleep(self, until: float) -> None:
        check_sleep(self.engine, self.clock.at)
        super()._sleep(until)

    # ---- the truth -----------------------------------------------------------------------------

    def check(self) -> None:
        """What holds after every step."""
        if self.down_until is not None:
            return
        check_engine(self.engine, self.ledger)
        self._check_slots()
        self._check_failures()

    def _check_failures(self) -> None:
        """One stream for each fault; all that share a prompt that could not be filled; nobody, if
        what failed to be decoded was of a stream that had ended."""
        blamed, rows = self.ledger.blamed, self._happened("raise", "commit")
        spared = self.condemned & set(self.ledger.lives)
        assert not spared, f"{spared} go on behind a chunk that could not be decoded"
        decodes, prefills = self._happened("decode", "nan"), self._happened("prefill")
        most = self.settings.max_streams + self.settings.max_jobs
        known = f"{blamed} failures; {rows} rows, {prefills} prefills, {decodes} decodes"
        assert rows + prefills <= blamed <= rows + most * prefills + decodes, known

    def _happened(self, *kinds: FaultKind) -> int:
        return sum(self.injected[kind] for kind in kinds) - self.faults.left(*kinds)

    def _check_slots(self) -> None:
        unread = sum(isinstance(e, ChunkReady) for e in self.inbox)
        freed = sum(isinstance(c, ReleaseSlot) for c in self.engine._commands)
        decoding = len(self.engine.delivery._decoding)
        known = f"{unread} unread, {freed} read, {decoding} in the decode lane"
        assert self.slots.used == unread + freed + decoding, f"{self.slots.used} used; {known}"

    def calm(self) -> bool:
        """Faults are over and nothing happens for a while: then every chunk of a light load is on
        time, and jobs go on, the oldest of each owner. Whether it was looked at: edf-s promises
        that, on a load that is light."""
        self.reading = True
        self.read()
        self.injected = Counter({kind: self._happened(kind) for kind in self.injected})
        self.faults.clear()
        self.pass_time(SETTLED)
        if self.down_until is not None or self.settings.policy != "edf-s":
            return False
        if not is_light(self.engine, self.machine):
            return False
        since, running = self.clock.at, [s for s in self.streams() if not s.paused]
        jobs = {s.opened.owner: s for s in reversed(running) if not s.is_live}
        self.pass_time(WATCHED)
        for stream in [*jobs.values(), *(s for s in running if s.is_live)]:
            check_flow(stream, self.ledger.lives.get(stream.id), since)
        return True

    def streams(self) -> list[Stream]:
        return [] if self.down_until is not None else list(self.engine.roster.streams.values())

    def finish(self, *, politely: bool) -> None:
        """The end of everything: all that was taken is back, and every stream had its end."""
        if self.down_until is None:
            if politely:
                self.engine.submit(Shutdown())
                self.engine.tick()
                assert self.engine.stopped
            self._die()
            self.reading = True
            self.read()
            self._take_releases()
            assert self.slots.used == 0, f"{self.slots.used} slots left"
