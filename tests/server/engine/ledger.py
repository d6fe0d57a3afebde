"""The book of everything that engines say, in two views: of one engine's life, and of the front.

In one life each chunk of a stream, from the first one on, is delivered or dropped exactly once, and
delivered ones come in order. The front, which outlives engines, gets each chunk at most once, in
order, and knows the fate of every chunk before one that it has read: after a restart a stream goes
on behind the last chunk that was read, so chunks made but not read are made again, and a chunk
that was dropped may be dropped again or be made after all. Every claim is asserted at once.
What it is not: the state inside the engine (checks.py).
"""

from collections import Counter, deque
from dataclasses import dataclass, field

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.messages import (
    ChunkDropped,
    ChunkReady,
    CloseStream,
    Command,
    ControlApplied,
    ControlStream,
    EngineStats,
    Event,
    OpenStream,
    StreamEnded,
    StreamOpened,
    StreamQueued,
    StreamRefused,
)
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.snapshot import unpack_snapshot

EPSILON = 1e-6
UNKNOWN = -1
"""The first chunk of a fork that no engine has opened yet."""


@dataclass(slots=True)
class Life:
    """One stream in one engine."""

    opened: OpenStream
    first: int
    """Its first chunk here."""
    ready: dict[int, ChunkReady] = field(default_factory=dict)
    dropped: dict[int, ChunkDropped] = field(default_factory=dict)
    applied: deque[ControlApplied] = field(default_factory=deque)
    """Controls whose first chunk has not come yet."""
    controls: list[int] = field(default_factory=list)
    """Revisions that were sent, are valid and have no answer yet."""
    folded: list[int] = field(default_factory=list)
    """Those that were part of its opening, perhaps, and need no answer."""
    position: int = 0
    """In the waiting room, as told last; 0: it does not wait."""
    again: bool = False
    """The front knows that it was open, or waited, before the engine died."""
    wants_pause: bool = False
    closing: bool = False
    pause_limit: int | None = None
    """While it is paused: the last chunk that may still be made."""

    @property
    def accounted(self) -> int:
        return len(self.ready) + len(self.dropped)

    @property
    def on_time(self) -> int:
        return sum(e.on_time for e in self.ready.values())


@dataclass(slots=True)
class Book:
    """One stream as the front knows it."""

    opened: OpenStream
    first: int
    known: bool = False
    """An engine said that it is open, or waits."""
    read: list[int] = field(default_factory=list)
    dropped: set[int] = field(default_factory=set)


class Ledger:
    """`blamed`: streams that failed; `counts`: events by name."""

    def __init__(self, spec: ModelSpec, settings: EngineSettings) -> None:
        self._spec, self._settings = spec, settings
        self.books: dict[str, Book] = {}
        self.lives: dict[str, Life] = {}
        self.asked: dict[str, Life] = {}
        """Opened by the front, not answered yet."""
        self.blamed = 0
        self.counts: Counter[str] = Counter()
        self._dying = False

    # ---- what the front says -------------------------------------------------------------------

    def sent(self, command: Command, *, up: bool, again: bool = False) -> None:
        """`up`: there is an engine that hears it. `again`: a restart opens it where it stood."""
        match command:
            case OpenStream():
                first = self._first(command)
                if again:
                    self._check_reopened(command, first)
                else:
                    self.books[command.stream_id] = Book(command, first)
                if up:
                    life = Life(command, first, wants_pause=command.paused)
                    life.again = again and self.books[command.stream_id].known
                    self.asked[command.stream_id] = life
            case ControlStream():
                if up and self.is_valid(command):
                    self._controlled(command)
            case CloseStream():
                self.books.pop(command.stream_id, None)
                if up and (closed := self.life(command.stream_id)):
                    closed.closing = True
            case _:
                pass

    def _controlled(self, command: ControlStream) -> None:
        life = self.life(command.stream_id)
        if life is not None:
            life.controls.append(command.revision)
            life.pause_limit = None
            if (
                command.transition == "recache"
            ):  # it may begin later than what it takes the place of
                life.applied.clear()
            if command.paused is not None:
                life.wants_pause = command.paused

    def life(self, stream_id: str) -> Life | None:
        return self.asked.get(stream_id) or self.lives.get(stream_id)

    def begins(self, stream_id: str, chunk: int) -> None:
        """Where an engine lets a stream begin: news for a fork."""
        life, book = self.lives[stream_id], self.books.get(stream_id)
        if life.first == UNKNOWN:
            life.first = chunk
        if book is not None and book.first == UNKNOWN:
            book.first = chunk

    def _first(self, command: OpenStream) -> int:
        if command.fork_of is not None:
            return UNKNOWN
        if command.snapshot is None:
            return 0
        try:
            return unpack_snapshot(
                command.snapshot, chunk_bytes=0, keep=self._spec.window_chunks
            ).next_chunk
        except ValueError:
            return 0

    def _check_reopened(self, command: OpenStream, first: int) -> None:
        """Goes on behind the last chunk that was read. A fork that has none goes on behind what was
        read of its parent, which may be less than the parent had made."""
        book = self.books[command.stream_id]
        if book.opened.fork_of is not None and not book.read:
            assert 0 <= first and (book.first == UNKNOWN or first <= book.first), command
            book.first = first
        wanted = book.read[-1] + 1 if book.read else book.first
        assert first == wanted, f"{command.stream_id} goes on at chunk {first}, not {wanted}"

    def is_valid(self, command: ControlStream) -> bool:
        """Others are ignored as a whole."""
        steps = command.steps is None or 1 <= command.steps <= self._spec.max_steps
        return steps and command.prompt != "" and (command.seed is None or command.seed >= 0)

    # ---- what an engine says -------------------------------------------------------------------

    def emitted(self, event: Event, now: float) -> None:
        self.counts[type(event).__name__] += 1
        match event:
            case StreamQueued():
                self._queued(event)
            case StreamOpened():
                self._opened(event)
            case StreamRefused():
                self._refused(event)
            case ChunkReady():
                self._ready(self.lives[event.stream_id], event, now)
            case ChunkDropped():
                self._dropped(self.lives[event.stream_id], event)
            case ControlApplied():
                self._applied(self.lives[event.stream_id], event)
            case StreamEnded():
                queued = self.asked.pop(event.stream_id, None)
                self._ended(queued or self.lives.pop(event.stream_id), event)
            case EngineStats():
                self._stats(event, now)
            case _:
                raise AssertionError(f"an event that nobody expects: {event}")

    def _queued(self, event: StreamQueued) -> None:
        life = self.life(event.stream_id)
        assert life is not None, f"{event.stream_id} was not asked for"
        assert life.opened.wait or event.stream_id in self.lives, f"{event}: it would not wait"
        assert event.position >= 1 and (event.estimated_seconds or 0.0) >= 0.0, event
        life.position = event.position

    def _opened(self, event: StreamOpened) -> None:
        """Also said of a stream that was paused, wanted again, and had to wait."""
        life = self.life(event.stream_id)
        assert life is not None, f"{event.stream_id} was not asked for"
        if self.asked.pop(event.stream_id, None) and life.opened.wait:
            life.folded, life.controls = life.controls, []
        life.position = 0
        self.lives[event.stream_id] = life

    def _refused(self, event: StreamRefused) -> None:
        life = self.asked.pop(event.stream_id, None)
        assert life is not None, f"{event.stream_id} was not asked for"
        assert event.reason and event.retry_after >= 0.0 and event.queue_position >= 0, event
        assert event.code == "invalid" or not life.opened.wait, f"{event}, but it would wait"
        assert not life.again, f"{event}, but it was open before the engine died"

    def _ready(self, life: Life, event: ChunkReady, now: float) -> None:
        self._account(life, event.stream_id, event.chunk)
        before = life.ready[max(life.ready)] if life.ready else None
        life.ready[event.chunk] = event
        live, total = life.opened.kind == "live", life.opened.total_chunks
        assert event.ready_at <= now and 1 <= event.steps <= self._spec.max_steps, event
        assert event.last == (total is not None and event.chunk == total - 1), event
        assert event.on_time == (not live or event.ready_at <= event.playout_at), event
        stages = event.stages
        assert min(stages.queue, stages.denoise, stages.decode, stages.convert) >= 0.0, event
        if before is None and live:
            self._check_start(event)
        if before is not None:
            assert before.chunk < event.chunk, f"chunk {event.chunk} after {before.chunk}"
            assert before.revision <= event.revision, f"{event} after {before}"
            assert not live or before.playout_at < event.playout_at, f"{event} after {before}"
        while life.applied and life.applied[0].revision <= event.revision:
            first = life.applied.popleft().chunk
            assert event.chunk >= first, f"{event}: its conditions begin at chunk {first}"
        for later in life.applied:
            assert event.chunk < later.chunk, f"{event} is not under {later}"

    def _check_start(self, event: ChunkReady) -> None:
        """A clock starts one buffer after its first chunk is ready, or within a chunk's length of
        that."""
        lead = event.playout_at - event.ready_at
        chunk = self._spec.chunk_seconds
        least = self._settings.playout_buffer_chunks * chunk
        assert least - EPSILON <= lead <= least + chunk + EPSILON, f"{event}: due {lead} s later"

    def _dropped(self, life: Life, event: ChunkDropped) -> None:
        self._account(life, event.stream_id, event.chunk)
        assert life.opened.kind == "live", f"a job lost a chunk: {event}"
        life.dropped[event.chunk] = event

    def _account(self, life: Life, stream_id: str, chunk: int) -> None:
        known = f"{stream_id}: chunk {chunk}"
        assert chunk not in life.ready, f"{known} was delivered before"
        assert chunk not in life.dropped, f"{known} was dropped before"
        total = life.opened.total_chunks
        assert life.first <= chunk and (total is None or chunk < total), f"{known} does not exist"

    def _applied(self, life: Life, event: ControlApplied) -> None:
        asked = (*life.controls, *life.folded)
        assert event.revision in asked, f"nobody asked for {event}"
        life.controls = [n for n in life.controls if n > event.revision]
        begun = max([*life.ready, *life.dropped], default=life.first - 1)
        assert event.chunk > begun, f"{event}, but chunk {begun} is over"
        life.applied.append(event)

    def _ended(self, life: Life, event: StreamEnded) -> None:
        match event.reason:
            case "finished":
                total = life.opened.total_chunks
                assert total is not None, event
                missing = set(range(life.first, total)) - {*life.ready, *life.dropped}
                assert not missing, f"{event.stream_id} is over without chunks {sorted(missing)}"
            case "closed":
                assert life.closing or self._dying, f"nobody closed {event.stream_id}"
            case _:
                assert event.reason == "failed" and event.error, event
                self.blamed += 1

    def _stats(self, event: EngineStats, now: float) -> None:
        assert event.at == now
        assert 0 <= event.pages_used <= event.pages_total, event
        assert 0 <= event.slots_used <= event.slots_total, event
        assert event.utilisation >= 0.0 and event.capacity_streams >= 0, event
        assert {s.stream_id for s in event.streams} == set(self.lives), event
        for s in event.streams:
            life = self.lives[s.stream_id]
            said = (s.chunks, s.chunks_on_time, s.chunks_late, s.chunks_dropped)
            made = len(life.ready)
            real = (made, life.on_time, made - life.on_time, len(life.dropped))
            assert said == real, f"{s.stream_id}: {said} in the figures, {real} in the events"
            assert sum(s.chunks_by_steps.values()) >= made and s.firm_broken >= 0, s

    # ---- what the front has read ---------------------------------------------------------------

    def read(self, event: Event) -> None:
        match event:
            case ChunkReady():
                self._read_chunk(self.books[event.stream_id], event)
            case ChunkDropped():
                book = self.books.get(event.stream_id)
                if book is not None:
                    assert event.chunk not in book.read, f"{event}: it was delivered"
                    book.dropped.add(event.chunk)
            case StreamOpened() | StreamQueued():
                if event.stream_id in self.books:
                    self.books[event.stream_id].known = True
            case StreamEnded() | StreamRefused():
                book = self.books.pop(event.stream_id, None)
                if book is not None and isinstance(event, StreamEnded):
                    self._read_end(book, event)
            case _:
                pass

    def _read_chunk(self, book: Book, event: ChunkReady) -> None:
        known = f"{event.stream_id}: chunk {event.chunk}"
        last = book.read[-1] if book.read else book.first - 1
        assert last < event.chunk, f"{known} was read after {last}"
        lost = set(range(last + 1, event.chunk)) - book.dropped
        assert not lost, f"{known} was read, but never {sorted(lost)}"
        book.dropped.discard(event.chunk)
        book.read.append(event.chunk)

    def _read_end(self, book: Book, event: StreamEnded) -> None:
        total = book.opened.total_chunks
        if event.reason == "finished" and total is not None:
            lost = set(range(book.first, total)) - book.dropped - set(book.read)
            assert not lost, f"{event.stream_id} is over, but nobody told of {sorted(lost)}"

    # ---- the ends of engines -------------------------------------------------------------------

    def engine_dies(self) -> None:
        """From now on every stream of this engine ends."""
        self._dying = True

    def engine_is_dead(self) -> None:
        assert not self.lives, f"{sorted(self.lives)} had no end"
        self.asked.clear()
        self._dying = False

    def given_up(self, event: StreamEnded) -> None:
        """What the registry says of a stream that no restart brings back."""
        self.counts[type(event).__name__] += 1
        self.books.pop(event.stream_id)
