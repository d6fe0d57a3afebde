"""The engine: one loop that schedules, reserves, copies in, runs, copies out and publishes.

Commands come in by `submit` from any thread; events leave through `emit` on the engine's thread.
Everything a tick decides is decided by a policy without tensors (policies/); everything a tick runs
is run by the executor; decoding goes on beside it in the decode lane. Both are behind device.py, so
that the same loop runs on a model (assemble.py) and on a virtual clock (the simulator).
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.admission import Admission
from onbeat.server.engine.ahead import Planner, after_rows
from onbeat.server.engine.delivery import Delivery, decode_job
from onbeat.server.engine.device import Costs, DecodeLane, Executor
from onbeat.server.engine.figures import Figures
from onbeat.server.engine.intake import Intake
from onbeat.server.engine.lead import usual
from onbeat.server.engine.messages import (
    CloseStream,
    Command,
    ControlStream,
    EngineStats,
    Event,
    ExportStream,
    OpenStream,
    ReleaseSlot,
    Shutdown,
    TraceRequest,
)
from onbeat.server.engine.misses import Finished, Misses
from onbeat.server.engine.policies import make_policy
from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.report import ready_event, stats_event
from onbeat.server.engine.residency import Residency
from onbeat.server.engine.roster import Roster
from onbeat.server.engine.scheduler import Candidate, Plan
from onbeat.server.engine.settings import Clock, EngineSettings
from onbeat.server.engine.slots import SlotWriter
from onbeat.server.engine.stats import Interval
from onbeat.server.engine.streams import Stream, candidate
from onbeat.server.engine.switch import is_due
from onbeat.server.engine.trace import Trace
from onbeat.server.engine.transfer import Transfers

LONGEST_SLEEP = 0.1
SLOT_POLL = 0.005


class Engine:
    """Decides and keeps the books; `executor` and `lane` compute, at what `costs` says."""

    def __init__(
        self,
        spec: ModelSpec,
        settings: EngineSettings,
        *,
        pool: KVPool,
        executor: Executor,
        lane: DecodeLane,
        costs: Costs,
        slots: SlotWriter,
        emit: Callable[[Event], None],
        clock: Clock,
        transfers: Transfers | None = None,
    ) -> None:
        """`transfers` None: pages are not copied; a paused stream may be left its latents."""
        self.spec, self.settings, self.pool, self.costs = spec, settings, pool, costs
        self._executor, self._lane = executor, lane
        self._slots, self._emit, self._clock = slots, emit, clock
        self.cost, self.decode_cost = costs.compute, costs.decode
        self.admission = Admission(
            compute=self.cost,
            decode=self.decode_cost,
            headroom=settings.headroom,
            max_rows=settings.max_rows,
            max_decode_rows=settings.max_decode_rows,
            delivery_seconds=settings.delivery_seconds,
        )
        self.trace = Trace(on=settings.trace)
        self.residency = Residency(spec, settings, pool, transfers, self.cost, self.trace)
        self.roster = Roster(spec, executor, settings, pool, self.residency, self.admission, emit)
        self.figures = Figures(spec, settings, self.admission, self.roster, self.pool, costs)
        self.planner = Planner(make_policy(settings), self.cost, settings.max_rows)
        self._plan_ahead = settings.plan_ahead == "on"
        self._awake = threading.Condition()
        self._commands: deque[Command] = deque()
        self._woken = False
        buffer = settings.playout_buffer_chunks * spec.chunk_seconds
        self.misses = Misses(spec, costs, self.trace, emit)
        self.delivery = Delivery(
            spec, lane, slots, emit, misses=self.misses, trace=self.trace, playout_buffer=buffer
        )
        self.intake = Intake(spec, executor, lane, pool, self.trace, self.roster.gate.encoding)
        self.roster.gate.encoding.start(costs.calibration)
        self._by = 0.0
        self.interval = Interval(since=clock.now())
        self.wake_at = 0.0
        self.stopped = False
        lane.start(self.wake)
        self.residency.start(self.wake)

    # ---- from any thread -----------------------------------------------------------------------

    def submit(self, command: Command) -> None:
        """Queues a command for the next tick."""
        with self._awake:
            self._commands.append(command)
            self._woken = True
            self._awake.notify()

    def wake(self) -> None:
        """Lets a sleeping loop look again."""
        with self._awake:
            self._woken = True
            self._awake.notify()

    # ---- the loop ------------------------------------------------------------------------------

    def run(self) -> None:
        """Ticks until a Shutdown, then returns every page and slot that it still holds."""
        self._executor.start()
        self._emit(ready_event(self.spec, self.admission, self.costs, self._slots, self.pool))
        try:
            while not self.stopped:
                if not self.tick():
                    self._sleep()
        finally:
            self.close()

    def tick(self) -> bool:
        """One iteration. True if any row ran; otherwise nothing is due before `wake_at`."""
        now = self._clock.now()
        self._take_commands(now)
        self._collect(now)
        self.residency.tick(now)
        for stream in self.roster.let_in(now):
            self.intake.begin(stream, self.roster.streams, now)
        plan = self._schedule(now)
        self.residency.copied.planned(now, idle=not plan.rows)
        planned = self._clock.now()
        steps, commits, prefills = self._reserve(plan, now)
        self._run(steps, commits, prefills, planned)
        self._publish()
        return bool(plan.rows or plan.finish or plan.drops)

    def close(self) -> None:
        """Ends every stream and stops the decode lane. Idempotent."""
        self.stopped = True
        self.roster.close_all()
        self.residency.close()
        self.delivery.close()
        self._executor.close()

    def _sleep(self) -> None:
        seconds = min(self.wake_at - self._clock.now(), LONGEST_SLEEP)
        if self.delivery.waiting or self.residency.moving:
            seconds = min(seconds, SLOT_POLL)
        with self._awake:
            if not self._woken and seconds > 0.0:
                self._awake.wait(seconds)
            self._woken = False

    # ---- commands and results ------------------------------------------------------------------

    def _take_commands(self, now: float) -> None:
        with self._awake:
            commands = list(self._commands)
            self._commands.clear()
            self._woken = False
        for command in commands:
            self._obey(command, now)

    def _obey(self, command: Command, now: float) -> None:
        match command:
            case OpenStream():
                if not self.roster.streams and self.roster.refused(command):
                    self.costs.doubt()
                self.intake.begin(self.roster.open(command, now), self.roster.streams, now)
            case ControlStream():
                self.roster.control(command, now)
            case ExportStream():
                self.roster.export(command.stream_id)
            case CloseStream():
                self.roster.close(command.stream_id)
            case ReleaseSlot():
                self._slots.release(command.slot)
            case TraceRequest():
                self._emit(self.trace.reply(command, now))
            case Shutdown():
                self.stopped = True

    def _collect(self, now: float) -> None:
        """Results of the decode lane, slots for chunks that wait for one, streams that are over."""
        failed = self.delivery.collect(self.roster.streams, now)
        for stream, error in failed + self.intake.collect(self.roster.streams, now):
            if self.roster.streams.get(stream.id) is stream:
                self.roster.end(stream, "failed", error)
        self.delivery.flush(now, self.roster.streams)
        for stream in list(self.roster.streams.values()):
            if stream.complete and stream.in_decode == 0:
                self.roster.end(stream, "finished")

    # ---- schedule and reserve ------------------------------------------------------------------

    def _schedule(self, now: float) -> Plan:
        planned = self.planner.plan(now, self._candidates(self._with_work(now)))
        for c in planned.fitted:
            if c.backlog:
                self.roster.streams[c.stream].piece = c.width
        plan = planned.plan
        self.wake_at = min(plan.wake_at, self.intake.inputs.wake_at)
        done = self._clock.now()
        self.interval.plans.append(done - now)
        self.trace.planned(
            now, done, planned.fitted, plan, pages=self.pool.used, row=self.cost.median(1)
        )
        for stream_id in plan.drops:
            self._drop(self.roster.streams[stream_id])
        for stream_id in plan.finish:
            stream = self.roster.streams[stream_id]
            assert stream.state is not None, stream_id
            stream.state = self._executor.end_chunk(stream.state)
            self._finish(stream, early=True)
        if plan.finish:
            self.delivery.flush(now, self.roster.streams)  # not only when this tick's batch is done
        return plan

    def _with_work(self, now: float) -> list[Stream]:
        """Streams that could give a row now or later, with due controls applied."""
        chosen = []
        for stream in self.roster.streams.values():
            stream.mind_clock(now, self.settings.max_behind_chunks, self.spec)
            if not self._has_work(stream):
                continue
            if stream.pending is not None and stream.state is None:
                if self._may_switch(stream, now):
                    self.roster.apply_pending(stream, now)
            chosen.append(stream)
        return chosen

    def _has_work(self, stream: Stream) -> bool:
        return stream.has_work(self.settings.job_ahead_chunks, self.pool.is_filled(stream.sink))

    def _may_switch(self, stream: Stream, now: float) -> bool:
        if stream.place != "resident":
            return False
        rows = min(len(self.roster.streams), self.settings.max_rows)
        by = self._compute_by()
        return is_due(stream, now, self.spec, compute_by=by, rows=rows, cost=self.cost)

    def _compute_by(self) -> float:
        """Seconds before its playout at which a chunk's last step must be done."""
        settings, backlog = self.settings, self._lane.backlog
        batch, rows = min(len(self.roster.streams), settings.max_rows), settings.max_decode_rows
        delivery = settings.delivery_seconds
        return usual(self.decode_cost, batch=batch, backlog=backlog, rows=rows, delivery=delivery)

    def _candidates(self, streams: Iterable[Stream]) -> list[Candidate]:
        by = self._by = self._compute_by()
        filled, settings = self.pool.is_filled, self.settings
        startup, grace = settings.startup_seconds, settings.delivery_seconds
        return [candidate(s, self.spec, filled(s.sink), by, startup, grace) for s in streams]

    def _reserve(self, plan: Plan, now: float) -> tuple[list[Stream], list[Stream], list[Stream]]:
        """The planned rows by kind of work; chunks that begin get their noise."""
        rows = [self.roster.streams[stream_id] for stream_id in plan.rows]
        work = {s.id: s.work(self.pool.is_filled(s.sink)) for s in rows}
        steps = [s for s in rows if work[s.id] == "step"]
        new = [s for s in steps if s.state is None]
        for stream in new:
            stream.begin_chunk(now, self.spec)
        if new:
            self._executor.start_chunks(new, [s.planned_steps(self.spec) for s in new])
        commits = [s for s in rows if work[s.id] == "commit"]
        return steps, commits, [s for s in rows if work[s.id] == "prefill"]

    # ---- run and copy out ----------------------------------------------------------------------

    def _run(
        self,
        steps: Sequence[Stream],
        commits: Sequence[Stream],
        prefills: Sequence[Stream],
        started: float,
    ) -> None:
        failed = self._prefill(prefills) if prefills else []
        if steps or commits:
            rows = len(steps) + sum(s.piece for s in commits)
            started = self._clock.now() if prefills else started
            launched = self._executor.launch(steps, commits)
            if self._plan_ahead:
                self._look_ahead(started, rows, steps, commits)
            outcome = launched()
            ended, predicted = self._clock.now(), self.cost.median(rows)
            seconds = ended - started
            self.trace.forward(started, ended, outcome.stepped, outcome.committed)
            self.delivery.ran(started, ended, outcome)
            failed += outcome.failed
            self._observe(rows, seconds)
            for stream in outcome.committed:
                stream.committed(started, ended)
            for stream in outcome.stepped:
                stream.times.denoise += seconds
                stream.times.predicted += predicted
                if stream.state is not None and stream.state.done:
                    self._finish(stream, early=False)
        for stream, error in failed:
            self.roster.end(stream, "failed", error)

    def _look_ahead(
        self, started: float, rows: int, steps: Sequence[Stream], commits: Sequence[Stream]
    ) -> None:
        """Plans the next tick while this one's forward runs."""
        after = after_rows(list(self.roster.streams.values()), steps, commits)
        if after is not None:
            forward, began = self.cost.median(rows), self._clock.now()
            working = self._candidates(s for s in after if self._has_work(s))
            self.planner.look_ahead(started + forward, forward, working)
            self.trace.ahead(began, self._clock.now())

    def _prefill(self, prefills: Sequence[Stream]) -> list[tuple[Stream, str]]:
        started = self._clock.now()
        failed = self._executor.prefill(prefills)
        ended = self._clock.now()
        self.trace.prefill(started, ended, prefills)
        self.figures.prefilled(len({s.sink for s in prefills}), ended - started)
        bad = {stream.sink for stream, _ in failed}
        for sink in {stream.sink for stream in prefills} - bad:
            self.pool.mark_filled(sink)
        return failed

    def _observe(self, rows: int, seconds: float) -> None:
        self.cost.observe(rows, max(seconds, 1e-6))
        self.interval.rows.append(rows)
        self.interval.steps.append(seconds)

    def _finish(self, stream: Stream, *, early: bool) -> None:
        """The chunk's latents are final: hand it to the decode lane, keep it for its commit."""
        state = stream.state
        assert state is not None and state.done, f"{stream.id}: chunk {stream.chunk}"
        now = self._clock.now()
        total = stream.opened.total_chunks
        finished = Finished(
            stream=stream,
            chunk=stream.chunk,
            revision=stream.now.revision,
            steps=state.step,
            last=total is not None and stream.chunk == total - 1,
            times=stream.times,
            finished_at=now,
            compute_by=self._by,
        )
        self.delivery.offer(
            finished, decode_job(stream, stream.chunk, state.latents, self.spec, now)
        )
        stream.keep(state, self.spec)
        stream.finished(state.step, self.spec, early=early)
        self._next_chunk(stream)

    def _drop(self, stream: Stream) -> None:
        """The chunk cannot be on time: its place in time is skipped, the next one takes its own."""
        self.misses.given_up(stream, self._clock.now(), self._by)
        stream.missed(self.spec)
        self._next_chunk(stream)

    def _next_chunk(self, stream: Stream) -> None:
        stream.state = None
        stream.chunk += 1

    # ---- publish -------------------------------------------------------------------------------

    def _publish(self) -> None:
        now = self._clock.now()
        self.delivery.flush(now, self.roster.streams)
        if now - self.interval.since >= self.settings.stats_seconds:
            self._emit(self._stats(now))
            self.interval = Interval(since=now)

    def _stats(self, now: float) -> EngineStats:
        return stats_event(
            now,
            interval=self.interval,
            candidates=self._candidates(self.roster.streams.values()),
            roster=self.roster,
            pool=self.pool,
            slots=self._slots,
            decode_seconds=self._lane.take_seconds(),
            utilisation=self.admission.utilisation(self.roster.live_demands()),
            figures=self.figures.at(now),
            residency=self.residency,
            cost=self.cost,
        )

    def check_integrity(self) -> None:
        """Asserts, when idle, that pages and slots are where they belong."""
        self.roster.check_integrity()
