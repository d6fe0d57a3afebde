"""Who may come in, and who waits: room for live streams and jobs, the waiting room, estimates.

Asks admission about time; knows the limits of numbers and pages. What it is not: the opening and
closing of streams (roster.py), or the promise itself (admission.py).
"""

from collections import Counter
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.admission import Admission
from onbeat.server.engine.forward import Demand
from onbeat.server.engine.input_encode import EncodeCost
from onbeat.server.engine.messages import AHEAD_CHUNKS, Event, OpenStream, StreamRefused
from onbeat.server.engine.pool import pages_per_stream
from onbeat.server.engine.residency import Residency
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.streams import Stream
from onbeat.server.engine.waiting import Lifetimes, Waiting, WaitingRoom

RETRY_SECONDS = 5.0
"""When to come again, while nothing is known of how long streams stay."""


class Gate:
    """`streams`: the open ones by id, the roster's. The tick thread owns it."""

    def __init__(
        self,
        spec: ModelSpec,
        settings: EngineSettings,
        residency: Residency,
        admission: Admission,
        streams: Mapping[str, Stream],
    ) -> None:
        self._spec, self._settings, self._residency = spec, settings, residency
        self._admission, self._streams = admission, streams
        self._lifetimes = Lifetimes()
        self.room = WaitingRoom()
        self.encoding = EncodeCost()

    # ---- what is promised ----------------------------------------------------------------------

    def running(self) -> list[Stream]:
        """Live streams with a share of time; a paused one has given up its own."""
        return [s for s in self._streams.values() if s.is_live and not s.paused]

    def demand(
        self, steps: int | None, opened: OpenStream | None = None, phase: float = 0.0
    ) -> Demand:
        """Of a live stream, or a plain one: its commit and its steps per chunk, and the encode of
        its input, which comes before its steps."""
        period = self._spec.chunk_seconds
        rows = 1 + (steps or self._spec.default_steps)
        given = opened.video_input if opened is not None else None
        plain = opened.ahead_chunks if opened is not None else AHEAD_CHUNKS
        ahead = plain if given is None else given.ahead_chunks
        encode = 0.0 if given is None else self.encoding.seconds
        window = ahead * period - encode
        return Demand(rows=rows, period=period, window=window, phase=phase, encode=encode)

    def live_demands(self) -> list[Demand]:
        return [self.demand(s.now.steps, s.opened, s.phase) for s in self.running()]

    def phase(self, command: OpenStream) -> float:
        """The instant at which a live stream that starts now disturbs the others least."""
        demand = self.demand(command.steps, command)
        return self._admission.outlook(self.live_demands(), demand).phase

    # ---- room ----------------------------------------------------------------------------------

    def refusal(self, command: OpenStream, now: float) -> StreamRefused | None:
        """Why a new stream cannot come in now. Whoever does not want to wait comes after those who
        do."""
        live = command.kind == "live"
        reason = self.no_room(command)
        if live and reason is not None:
            reason += self._advice(command)
        if live and len(self.room) and reason is None and not _promised(command):
            reason = f"{len(self.room)} streams wait for room"
        if reason is None:
            return None
        place = self.room.place_of(command.owner, self._held()) if live else 0
        seconds = self._until(place, now) if live else None
        return StreamRefused(
            stream_id=command.stream_id,
            code="capacity",
            reason=reason,
            queue_position=place,
            retry_after=RETRY_SECONDS if seconds is None else max(1.0, seconds),
        )

    def no_room(self, command: OpenStream, stream: Stream | None = None) -> str | None:
        """Why there is no room for a new stream, or for `stream` which is paused; None if there
        is."""
        kind, settings = command.kind, self._settings
        mine = sum(s.opened.kind == kind for s in self._streams.values() if s is not stream)
        most = settings.max_streams if kind == "live" else settings.max_jobs
        if mine >= most:
            return f"{mine} {kind} streams are open, at most {most} are allowed"
        if not stream and command.paused:
            return None
        free = self._residency.free_pages()
        pages = self._residency.needs(stream) if stream else pages_per_stream(self._spec)
        if pages > free:
            return f"it needs {pages} pages of key-value memory, {free} are free"
        if kind == "job" or not settings.admission or (not stream and _promised(command)):
            return None
        steps = (stream.pending or stream.now).steps if stream else command.steps
        demand = self.demand(steps, command)
        refusal = self._admission.refuse(self.live_demands(), demand, pages=pages, free=free)
        return None if refusal is None else refusal.reason

    def _advice(self, command: OpenStream) -> str:
        """The most steps with which a stream that was refused could come in; empty if none."""
        for fewer in range((command.steps or self._spec.default_steps) - 1, 0, -1):
            if self.no_room(replace(command, steps=fewer)) is None:
                return f"; with steps={fewer} there would be room"
        return ""

    # ---- the waiting room ----------------------------------------------------------------------

    def left(self, stream: Stream, now: float) -> None:
        """A stream has ended or was paused: its share of time is free."""
        self.room.remove(stream.id)
        if stream.is_live and not stream.paused:
            self._lifetimes.ended(now - stream.running_since)

    def wait(self, place: Waiting, now: float, emit: Callable[[Event], None]) -> None:
        """Takes it into the waiting room and says its place at once."""
        self.room.add(place)
        self._tell(now, emit)

    def next_in(self, now: float, emit: Callable[[Event], None]) -> Waiting | None:
        """Whoever waits and comes in now, in fair order; None if nobody can. Tells the places."""
        if not self.room.due(now):
            return None
        place = self.room.in_order(self._held())[0]
        if self.no_room(place.opening, place.stream) is None:
            return self.room.remove(place.id)
        self._tell(now, emit)
        return None

    def _tell(self, now: float, emit: Callable[[Event], None]) -> None:
        self.room.tell(now, self._held(), lambda at: self._until(at, now), emit)

    def _held(self) -> Counter[str]:
        return Counter(s.opened.owner for s in self.running())

    def _until(self, place: int, now: float) -> float | None:
        """Estimated seconds until whoever has this place of the waiting room comes in."""
        return self._lifetimes.until(place, [now - s.running_since for s in self.running()])


def _promised(command: OpenStream) -> bool:
    """What ran before an engine restart goes on; what is opened paused asks for time and pages when
    it is resumed."""
    return command.promised or command.paused
