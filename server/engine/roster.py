"""The open streams and what they hold: opening, control, prompt swaps, closing.

Owns the KV pool's books and asks admission. What it is not: the order of work, or its running.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from onbeat.models.spec import ModelSpec
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.admission import Admission
from onbeat.server.engine.device import Executor
from onbeat.server.engine.forward import Demand
from onbeat.server.engine.ladder import FirmRecord, Ladder
from onbeat.server.engine.messages import (
    AHEAD_CHUNKS,
    ControlApplied,
    ControlStream,
    Event,
    OpenStream,
    StreamEnded,
    StreamOpened,
    StreamRefused,
)
from onbeat.server.engine.pool import KVPool, pages_per_stream
from onbeat.server.engine.residency import Residency
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.slots import latent_bytes
from onbeat.server.engine.snapshot import unpack_snapshot
from onbeat.server.engine.streams import NOWHERE, Conditions, Stream
from onbeat.server.engine.switch import recaches, take_up
from onbeat.server.engine.window import Window
from onbeat.server.vocabulary import EndReason, Transition

log = logging.getLogger(__name__)
MAX_SEED = (1 << 63) - 1
RETRY_SECONDS = 5.0


class Roster:
    """Streams by id, in order of arrival. The tick thread owns it."""

    def __init__(
        self,
        spec: ModelSpec,
        executor: Executor,
        settings: EngineSettings,
        pool: KVPool,
        residency: Residency,
        admission: Admission,
        emit: Callable[[Event], None],
    ) -> None:
        self.spec, self._executor, self._settings = spec, executor, settings
        self._pool, self._residency = pool, residency
        self._admission, self._emit = admission, emit
        self._resuming: list[Stream] = []
        """Paused streams that are wanted again, for which there are no pages yet."""
        self._opened = 0
        self.streams: dict[str, Stream] = {}

    def demand(
        self, steps: int | None, ahead_chunks: int = AHEAD_CHUNKS, phase: float = 0.0
    ) -> Demand:
        """Of a live stream: its commit and its steps per chunk."""
        period = self.spec.chunk_seconds
        rows = 1 + (steps or self.spec.default_steps)
        return Demand(rows=rows, period=period, window=ahead_chunks * period, phase=phase)

    def live_demands(self) -> list[Demand]:
        """Of the streams that run: a paused one has given up its share."""
        return [
            self.demand(s.now.steps, s.opened.ahead_chunks, s.phase)
            for s in self.streams.values()
            if s.is_live and not s.paused
        ]

    def free_pages(self) -> int:
        """What may be promised: pages are reserved whole, so that sharing a prompt never promises
        a page twice."""
        return self._residency.free_pages()

    # ---- opening -------------------------------------------------------------------------------

    def open(self, command: OpenStream, now: float) -> Stream | None:
        """Adds a stream, or refuses it with a reason; says which."""
        refusal = self.refused(command)
        if refusal is None:
            try:
                stream = self._make(command, now)
            except ValueError as error:
                refusal = StreamRefused(
                    stream_id=command.stream_id, code="invalid", reason=str(error)
                )
        if refusal is not None:
            self._emit(refusal)
            return None
        self.streams[stream.id] = stream
        self._residency.paused(stream, now)
        if not stream.paused:
            self._residency.wanted(stream)
        recognised = list(stream.now.encoded.recognised)
        self._emit(StreamOpened(stream_id=stream.id, recognised=recognised))
        return stream

    def refused(self, command: OpenStream) -> StreamRefused | None:
        """Why the stream cannot be opened, None if it can."""
        return self._invalid(command) or self._full(command)

    def _invalid(self, command: OpenStream) -> StreamRefused | None:
        reason = self._wrong_numbers(command.seed, command.steps)
        if command.stream_id in self.streams:
            reason = f"stream_id: {command.stream_id!r} is already open"
        if command.total_chunks is not None and command.total_chunks < 1:
            reason = f"total_chunks: {command.total_chunks}; allowed: 1 or more"
        if command.ahead_chunks < 1:
            reason = f"ahead_chunks: {command.ahead_chunks}; allowed: 1 or more"
        if reason is None:
            return None
        return StreamRefused(stream_id=command.stream_id, code="invalid", reason=reason)

    def _wrong_numbers(self, seed: int | None, steps: int | None) -> str | None:
        if seed is not None and not 0 <= seed <= MAX_SEED:
            return f"seed: {seed}; allowed: 0 to 2^63 - 1"
        if steps is not None and not 1 <= steps <= self.spec.max_steps:
            return f"steps: {steps}; allowed: 1 to {self.spec.max_steps}"
        return None

    def _full(self, command: OpenStream) -> StreamRefused | None:
        """A stream with a snapshot was admitted before; the time it needs was promised then. One
        that is opened paused asks for time and pages when it is resumed."""
        live = self.live_demands()
        mine = sum(1 for s in self.streams.values() if s.opened.kind == command.kind)
        most = self._settings.max_streams if command.kind == "live" else self._settings.max_jobs
        pages, free = pages_per_stream(self.spec), self.free_pages()
        reason, retry_after = None, RETRY_SECONDS
        if mine >= most:
            reason = f"{mine} {command.kind} streams are open, at most {most} are allowed"
        elif command.paused:
            return None
        elif pages > free:
            reason = f"it needs {pages} pages of key-value memory, {free} are free"
        elif command.kind == "live" and self._settings.admission and command.snapshot is None:
            demand = self.demand(command.steps, command.ahead_chunks)
            refusal = self._admission.refuse(live, demand, pages=pages, free=free)
            if refusal is not None:
                reason = refusal.reason
        if reason is None:
            return None
        return StreamRefused(
            stream_id=command.stream_id, code="capacity", reason=reason, retry_after=retry_after
        )

    def _make(self, command: OpenStream, now: float) -> Stream:
        """Raises ValueError for a prompt or a snapshot that cannot be read; takes no page then."""
        conditions = Conditions(
            prompt=command.prompt,
            encoded=self._executor.encode_prompt(command.prompt),
            seed=command.seed,
            steps=command.steps,
            revision=command.revision,
        )
        next_chunk, history = self._history(command)
        decoder = self._executor.new_decoder_state()
        self._opened += 1
        return Stream(
            opened=command,
            order=self._opened,
            wanted_at=now,
            now=conditions,
            sink=NOWHERE,
            window=Window(self._pool, self.spec.window_chunks),
            decoder=decoder,
            ladder=self._ladder(),
            firm=FirmRecord(m=self._settings.firm_m, k=self._settings.firm_k),
            chunk=next_chunk,
            uncommitted=history,
            history=deque(history),
            fresh=not history,
            phase=self._phase(command),
            place="latents",
            paused=command.paused,
        )

    def _phase(self, command: OpenStream) -> float:
        """The instant at which a new stream disturbs the others least."""
        if command.kind == "job":
            return 0.0
        demand = self.demand(command.steps, command.ahead_chunks)
        return self._admission.outlook(self.live_demands(), demand).phase

    def _ladder(self) -> Ladder:
        """Only edf-s takes steps off: the other policies have the quality that was asked for."""
        calm = round(self._settings.recover_seconds / self.spec.chunk_seconds)
        bends = self._settings.policy == "edf-s" and self._settings.anytime
        return Ladder(calm_chunks=max(1, calm), bends=bends)

    def _history(self, command: OpenStream) -> tuple[int, deque[ChunkState]]:
        """The chunks of a snapshot, to be committed again before the next one begins."""
        if command.snapshot is None:
            return 0, deque()
        snapshot = unpack_snapshot(
            command.snapshot,
            chunk_bytes=latent_bytes(self.spec),
            window_chunks=self.spec.window_chunks,
        )
        first = max(0, snapshot.next_chunk - len(snapshot.latents))
        states = (
            self._executor.restore(command.seed, first + i, data)
            for i, data in enumerate(snapshot.latents)
        )
        return snapshot.next_chunk, deque(states)

    # ---- control -------------------------------------------------------------------------------

    def control(self, command: ControlStream, now: float) -> None:
        """Takes effect at the stream's next unstarted chunk; pausing takes effect at once."""
        stream = self.streams.get(command.stream_id)
        if stream is None:
            return
        wrong = self._wrong_numbers(command.seed, command.steps)
        if wrong is not None:
            log.warning("control of %s ignored: %s", command.stream_id, wrong)
            return
        if command.prompt is not None:
            stream.asked_at = stream.chunk
        stream.pending = self._changed(stream.pending or stream.now, command)
        if command.paused is not None and command.paused != stream.paused:
            self._pause(stream, now) if command.paused else self._resume(stream, now)
        if not recaches(stream):
            self._announce(stream, now)

    def _pause(self, stream: Stream, now: float) -> None:
        stream.paused, stream.wanted_at = True, now
        self._residency.paused(stream, now)

    def _resume(self, stream: Stream, now: float) -> None:
        """At once if there are pages for it, else as soon as there are."""
        if self._residency.needs(stream) > self.free_pages():
            self._resuming.append(stream)
            return
        stream.paused, stream.anchor, stream.wanted_at = False, None, now
        self._residency.wanted(stream)

    def let_in(self, now: float) -> None:
        """Once a tick: those that wait for pages, in order."""
        waiting, self._resuming = self._resuming, []
        for stream in waiting:
            if self.streams.get(stream.id) is stream and stream.paused:
                self._resume(stream, now)

    def _changed(self, before: Conditions, command: ControlStream) -> Conditions:
        prompt = before.prompt if command.prompt is None else command.prompt
        same = prompt == before.prompt
        return replace(
            before,
            prompt=prompt,
            encoded=before.encoded if same else self._executor.encode_prompt(prompt),
            seed=before.seed if command.seed is None else command.seed,
            steps=before.steps if command.steps is None else command.steps,
            revision=command.revision,
            transition=before.transition if command.prompt is None else self._transition(command),
        )

    def _transition(self, command: ControlStream) -> Transition:
        return command.transition or self.spec.prompt_transition

    def _announce(self, stream: Stream, now: float) -> None:
        assert stream.pending is not None
        chunk = stream.chunk + (stream.state is not None)
        due = stream.playout_at(chunk, self.spec)
        self._emit(
            ControlApplied(
                stream_id=stream.id,
                revision=stream.pending.revision,
                chunk=chunk,
                playout_at=now + self._settings.startup_seconds if due is None else due,
                recognised=list(stream.pending.encoded.recognised),
            )
        )

    def apply_pending(self, stream: Stream, now: float) -> None:
        """Between two chunks. The chunk of a recache is known only now."""
        if recaches(stream):
            self._announce(stream, now)
        take_up(stream, self.spec, self._pool)

    # ---- what is held --------------------------------------------------------------------------

    def check_integrity(self) -> None:
        """Asserts that the pool's books are exactly what the streams hold."""
        self._residency.check_integrity(self.streams)

    # ---- the end -------------------------------------------------------------------------------

    def end(self, stream: Stream, reason: EndReason, error: str | None = None) -> None:
        """Removes a stream and gives back its pages."""
        del self.streams[stream.id]
        self._residency.forget(stream)
        if error is not None:
            log.error("stream %s failed: %s", stream.id, error)
        self._emit(StreamEnded(stream_id=stream.id, reason=reason, error=error))
