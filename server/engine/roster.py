"""The open streams and what they hold: opening, control, prompt swaps, closing.

Owns the KV pool's books and asks admission. What it is not: the order of work, or its running.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from msgspec import structs

from onbeat.models.spec import EncodedPrompt, ModelSpec
from onbeat.server.engine.admission import Admission
from onbeat.server.engine.device import Executor
from onbeat.server.engine.fork import inherited, parent_of, share_pages, wrong_fork
from onbeat.server.engine.gate import Gate
from onbeat.server.engine.input_checks import wrong_input, wrong_strength
from onbeat.server.engine.input_store import InputStore
from onbeat.server.engine.input_track import StreamInput
from onbeat.server.engine.ladder import FirmRecord, Ladder
from onbeat.server.engine.messages import (
    ControlApplied,
    ControlStream,
    Event,
    OpenStream,
    StreamEnded,
    StreamOpened,
    StreamRefused,
)
from onbeat.server.engine.moving import Arrival, arrive, leave
from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.prompts import DEFAULT_BLEND_CHUNKS, Blend, encode
from onbeat.server.engine.reference import Reference, unpack_reference
from onbeat.server.engine.registry import changed_opening
from onbeat.server.engine.residency import Residency
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.streams import NOWHERE, Conditions, Stream, history_chunks
from onbeat.server.engine.switch import recaches, take_up
from onbeat.server.engine.waiting import Waiting
from onbeat.server.engine.window import Window
from onbeat.server.vocabulary import EndReason, Prompt, Transition

log = logging.getLogger(__name__)
MAX_SEED = (1 << 63) - 1


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
        self._emit = emit
        self.inputs = InputStore(spec)
        self._opened = 0
        self._now = 0.0
        self.streams: dict[str, Stream] = {}
        self.gate = Gate(spec, settings, residency, admission, self.streams)
        self.demand, self.live_demands = self.gate.demand, self.gate.live_demands
        self.free_pages = residency.free_pages

    # ---- opening -------------------------------------------------------------------------------

    def open(self, command: OpenStream, now: float) -> Stream | None:
        """Adds a stream, or lets it wait, or refuses it with a reason; says which."""
        self._now = now
        refusal = self.refused(command)
        if refusal is None:
            return self._enter(command, now)
        if refusal.code == "capacity" and command.wait:
            refusal = self._queued(command, now)
        if refusal is not None:
            self._emit(refusal)
        return None

    def refused(self, command: OpenStream) -> StreamRefused | None:
        """Why the stream cannot be opened now, None if it can."""
        return self._wrong(command) or self.gate.refusal(command, self._now)

    def _enter(self, command: OpenStream, now: float) -> Stream | None:
        try:
            stream = self._make(command, now)
        except ValueError as error:
            self._emit(_invalid(command, str(error)))
            return None
        self.streams[stream.id] = stream
        self._residency.paused(stream, now)
        if not stream.paused:
            self._residency.wanted(stream)
        parent = parent_of(command, self.streams)
        if parent is not None:
            share_pages(stream, parent)
        self._say_opened(stream)
        return stream

    def _say_opened(self, stream: Stream) -> None:
        recognised = list((stream.pending or stream.now).encoded.recognised)
        self._emit(StreamOpened(stream_id=stream.id, recognised=recognised))

    def _queued(self, command: OpenStream, now: float) -> StreamRefused | None:
        """Takes a live stream into the waiting room; or why not, if it cannot be run at all."""
        if command.kind != "live":
            return _invalid(command, "wait: only live streams can wait for room")
        try:
            self._encode(command.prompt)
        except ValueError as error:
            return _invalid(command, str(error))
        self.gate.room.add(Waiting(opening=command))
        return None

    def let_in(self, now: float) -> list[Stream]:
        """Once a tick: those that wait for room and have it now; the new streams among them."""
        self._now = now
        opened: list[Stream] = []
        while (place := self.gate.next_in(now, self._emit)) is not None:
            if place.stream is not None:
                self._start(place.stream, now)
                self._say_opened(place.stream)
            elif (stream := self._enter(place.opening, now)) is not None:
                opened.append(stream)
        return opened

    def _wrong(self, command: OpenStream) -> StreamRefused | None:
        reason = self._wrong_numbers(command.seed, command.steps)
        if command.stream_id in self.streams or command.stream_id in self.gate.room:
            reason = f"stream_id: {command.stream_id!r} is already open"
        if command.total_chunks is not None and command.total_chunks < 1:
            reason = f"total_chunks: {command.total_chunks}; allowed: 1 or more"
        if command.ahead_chunks < 1:
            reason = f"ahead_chunks: {command.ahead_chunks}; allowed: 1 or more"
        reason = reason or self._unforkable(command) or wrong_input(command, self.spec)
        return None if reason is None else _invalid(command, reason)

    def _unforkable(self, command: OpenStream) -> str | None:
        parent = command.fork_of or ""
        wrong = wrong_fork(command, self.streams)
        if wrong and parent in self.gate.room and parent not in self.streams:
            return f"fork_of: {parent!r} waits for room; it can be forked once it runs"
        return wrong

    def _wrong_numbers(self, seed: int | None, steps: int | None) -> str | None:
        if seed is not None and not 0 <= seed <= MAX_SEED:
            return f"seed: {seed}; allowed: 0 to 2^63 - 1"
        if steps is not None and not 1 <= steps <= self.spec.max_steps:
            return f"steps: {steps}; allowed: 1 to {self.spec.max_steps}"
        return None

    def _make(self, command: OpenStream, now: float) -> Stream:
        """Raises ValueError for a prompt or snapshot that cannot be read and a parent that is gone;
        takes no page then."""
        reason = wrong_fork(command, self.streams)
        if reason is not None:
            raise ValueError(reason)
        conditions = Conditions(
            prompt=command.prompt,
            encoded=self._encode(command.prompt),
            seed=command.seed,
            steps=command.steps,
            revision=command.revision,
            strength=command.video_input.strength if command.video_input else None,
            transition=command.transition or self.spec.prompt_transition,
        )
        reference = self._reference(command)
        came = arrive(command, self.spec, self._executor)
        parent, pending = parent_of(command, self.streams), None
        if parent is not None:
            kept = [*parent.history][-history_chunks(command.kind, self.spec) :]
            came = Arrival(next_chunk=parent.chunk, history=kept, fresh=False)
            conditions, pending = inherited(parent, conditions)
        decoder = self._executor.new_decoder_state()
        self._executor.skip_chunks(decoder, came.skipped)
        self._opened += 1
        return Stream(
            opened=structs.replace(command, reference=None),
            order=self._opened,
            wanted_at=now,
            now=conditions,
            pending=pending,
            sink=NOWHERE,
            window=Window(self._pool, self.spec.window_chunks),
            decoder=decoder,
            ladder=self._ladder(came.level),
            firm=FirmRecord(m=self._settings.firm_m, k=self._settings.firm_k),
            chunk=came.next_chunk,
            uncommitted=deque(came.history),
            history=deque(came.history),
            reference=reference,
            input=self._input(command),
            asked_at=came.next_chunk,
            announced=True,
            fresh=came.fresh,
            counters=came.counters,
            phase=self.gate.phase(command) if command.kind == "live" else 0.0,
            place="latents",
            paused=command.paused,
            running_since=now,
        )

    def _ladder(self, level: int) -> Ladder:
        """Only edf-s takes steps off: the other policies have the quality that was asked for."""
        calm = round(self._settings.recover_seconds / self.spec.chunk_seconds)
        bends = self._settings.policy == "edf-s" and self._settings.anytime
        return Ladder(calm_chunks=max(1, calm), bends=bends, level=level if bends else 0)

    def _reference(self, command: OpenStream) -> Reference | None:
        """A snapshot or a parent has all the history that a stream needs."""
        if command.reference is None or command.snapshot is not None:
            return None
        if command.fork_of is not None:
            raise ValueError("reference: a fork goes on from its parent; allowed: none")
        return unpack_reference(command.reference, self.spec)

    def _input(self, command: OpenStream) -> StreamInput | None:
        given = command.video_input
        if given is None:
            return None
        return StreamInput(track=self.inputs.track(command.stream_id), asked=given)

    # ---- control -------------------------------------------------------------------------------

    def control(self, command: ControlStream, now: float) -> None:
        """Takes effect at the stream's next unstarted chunk; pausing takes effect at once."""
        self._now = now
        stream = self.streams.get(command.stream_id)
        place = self.gate.room.get(command.stream_id)
        wrong = self._wrong_numbers(command.seed, command.steps) or self._unreadable(command)
        wrong = wrong or wrong_strength(command.strength)
        if wrong is not None:
            log.warning("control of %s ignored: %s", command.stream_id, wrong)
        elif stream is not None:
            self._control(stream, command, now)
        elif place is not None:
            place.opening = changed_opening(place.opening, command)
            self.gate.room.changed()

    def _unreadable(self, command: ControlStream) -> str | None:
        """Why its prompt cannot be taken up, None if it can."""
        if command.prompt is None:
            return None
        try:
            self._encode(command.prompt)
        except ValueError as error:
            return str(error)
        return None

    def _control(self, stream: Stream, command: ControlStream, now: float) -> None:
        if command.prompt is not None:
            stream.asked_at = stream.chunk
        stream.pending = self._changed(stream, command)
        if command.floor_level is not None:
            stream.ladder.hold(command.floor_level, stream.asked_steps(self.spec))
        if command.paused is not None:
            (self._pause if command.paused else self._resume)(stream, now)
        stream.announced = False
        if not recaches(stream):
            self._announce(stream, now)

    def _pause(self, stream: Stream, now: float) -> None:
        """Its share of time is for others until it is resumed."""
        self.gate.left(stream, now)
        if not stream.paused:
            stream.paused, stream.wanted_at = True, now
            self._residency.paused(stream, now)

    def _resume(self, stream: Stream, now: float) -> None:
        """At once if there is room for it; else it waits like a new one."""
        room = self.gate.room
        if not stream.paused or stream.id in room:
            return
        first = not stream.is_live or len(room) == 0
        if first and self.gate.no_room(stream.opened, stream) is None:
            self._start(stream, now)
        else:
            self.gate.wait(Waiting(opening=stream.opened, stream=stream), now, self._emit)

    def _start(self, stream: Stream, now: float) -> None:
        """A paused stream runs again, on a new clock."""
        if stream.is_live:
            stream.phase = self.gate.phase(stream.opened)
        stream.paused, stream.anchor = False, None
        stream.wanted_at = stream.running_since = now
        self._residency.wanted(stream)

    def _changed(self, stream: Stream, command: ControlStream) -> Conditions:
        before = stream.now if stream.begins_part else stream.pending or stream.now
        if command.prompt is not None and command.prompt != before.prompt:
            before = self._prompted(before, stream.now, command.prompt, command)
        return replace(
            before,
            seed=before.seed if command.seed is None else command.seed,
            steps=before.steps if command.steps is None else command.steps,
            revision=command.revision,
            strength=before.strength if command.strength is None else command.strength,
            transition=before.transition if command.prompt is None else self._transition(command),
            reset=before.reset or command.reset,
        )

    def _prompted(
        self, before: Conditions, now: Conditions, prompt: Prompt, command: ControlStream
    ) -> Conditions:
        """With a new prompt; a blend to it begins where the stream is."""
        encoded, blend = self._encode(prompt), None
        if self._transition(command) == "blend":
            chunks = command.blend_chunks or DEFAULT_BLEND_CHUNKS
            blend = Blend(origin=now.encoded, target=encoded, chunks=chunks)
            encoded = blend.encoded
        return replace(before, prompt=prompt, encoded=encoded, blend=blend)

    def _transition(self, command: ControlStream) -> Transition:
        return command.transition or self.spec.prompt_transition

    def _encode(self, prompt: Prompt) -> EncodedPrompt:
        return encode(prompt, self._executor.encode_prompt)

    def _announce(self, stream: Stream, now: float) -> None:
        assert stream.pending is not None
        stream.announced = True
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
        """Between two chunks. The chunk of a recache is known only now; a fork's own prompt came
        with its opening and needs no answer."""
        if not stream.announced:
            self._announce(stream, now)
        take_up(stream, self.spec, self._pool)

    def export(self, stream_id: str) -> None:
        """Says what another engine needs to go on with a stream."""
        self._emit(leave(stream_id, self.streams.get(stream_id), self._executor))

    # ---- what is held --------------------------------------------------------------------------

    def check_integrity(self) -> None:
        """Asserts that the pool's books are exactly what the streams hold."""
        self._residency.check_integrity(self.streams)

    # ---- the end -------------------------------------------------------------------------------

    def close(self, stream_id: str) -> None:
        """Ends a stream, or takes it out of the waiting room. Unknown ids are no error."""
        place = self.gate.room.remove(stream_id)
        if stream_id in self.streams:
            self.end(self.streams[stream_id], "closed")
        elif place is not None:
            self._emit(StreamEnded(stream_id=stream_id, reason="closed"))

    def close_all(self) -> None:
        for stream_id in [*self.streams, *self.gate.room.ids()]:
            self.close(stream_id)

    def end(self, stream: Stream, reason: EndReason, error: str | None = None) -> None:
        """Removes a stream and gives back its pages."""
        del self.streams[stream.id]
        self.gate.left(stream, self._now)
        self._residency.forget(stream)
        if error is not None:
            log.error("stream %s failed: %s", stream.id, error)
        self._emit(StreamEnded(stream_id=stream.id, reason=reason, error=error))


def _invalid(command: OpenStream, reason: str) -> StreamRefused:
    return StreamRefused(stream_id=command.stream_id, code="invalid", reason=reason)
