"""An engine of the same interface without a model: synthetic chunks from one thread, on command."""

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from onbeat.server.engine.client import ChunkPayload
from onbeat.server.engine.messages import (
    ChunkReady,
    CloseStream,
    Command,
    ControlApplied,
    ControlStream,
    EngineDown,
    EngineReady,
    EngineStats,
    Event,
    OpenStream,
    StageTimes,
    StreamEnded,
    StreamOpened,
    StreamQueued,
    StreamRefused,
    StreamStats,
    TraceReply,
    TraceRequest,
    TransferStats,
)
from onbeat.server.engine.records import Forward, Row
from onbeat.server.engine.snapshot import unpack_snapshot
from onbeat.server.engine.track import BucketCost
from onbeat.server.vocabulary import prompt_text

KNOWN_WORDS = frozenset("a red green blue ball square on white black bounces".split())
SIZE, FPS, CHUNK_FRAMES, SAMPLE_RATE = 32, 20, 4, 24_000
COST = BucketCost(
    kind="step",
    rows=4,
    count=9,
    p50_ms=5.0,
    p99_ms=9.0,
    predicted_p50_ms=5.5,
    predicted_p99_ms=7.5,
    over_p99=0.02,
)

COPIES = TransferStats(
    places={"host": 3, "restoring": 1},
    host_bytes=4000,
    host_bytes_total=9000,
    copied_bytes=1000,
    copied_seconds=0.02,
    exposed_seconds=0.001,
    waited_seconds=0.004,
)
"""Of each report."""


@dataclass
class Stream:
    opened: OpenStream
    chunk: int = 0
    paused: bool = False
    revision: int = 0
    applied: int = 0
    recognised: list[str] = field(default_factory=list)


class FakeEngine:
    """capacity: live streams admitted. job_chunk_seconds: pause after each chunk of a job. encodes:
    whether the model takes pictures.

    Prompts: "invalid" is refused as such, "boom" fails after two chunks.
    """

    def __init__(
        self, *, capacity: int = 4, job_chunk_seconds: float = 0.0, encodes: bool = True
    ) -> None:
        self.capacity, self.encodes = capacity, encodes
        self.job_chunk_seconds = job_chunk_seconds
        self.commands: list[Command] = []
        self.fed: list[tuple[list[str], npt.NDArray[np.uint8], float]] = []
        self.streams: dict[str, Stream] = {}
        self.waiting: list[OpenStream] = []
        self.closed = False
        self.full = False
        """A stream that is resumed has to wait; it is told so before the answer to its control."""
        self.stall: dict[str, float] = {}
        """Seconds more that each chunk takes, by stage."""
        self.weights = ""
        self.silent = threading.Event()
        """While set, no stream moves on."""
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._payloads: dict[tuple[str, int], ChunkPayload] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    # ---- EngineClient --------------------------------------------------------------------------

    def start(self) -> None:
        self._events.put(self.announcement())
        self._thread.start()

    def send(self, command: Command) -> None:
        with self._lock:
            self.commands.append(command)
            match command:
                case OpenStream():
                    self._open(command)
                case ControlStream(stream_id=stream_id) if stream_id in self.streams:
                    self._control(self.streams[stream_id], command)
                case CloseStream(stream_id=stream_id):
                    self.streams.pop(stream_id, None)
                    self.waiting = [c for c in self.waiting if c.stream_id != stream_id]
                    self._let_in()
                case TraceRequest() if not self.silent.is_set():
                    self._events.put(_traced(command))
                case _:
                    pass

    def feed(self, streams: Sequence[str], picture: npt.NDArray[np.uint8], at: float) -> bool:
        self.fed.append((list(streams), picture, at))
        return True

    def receive(self, timeout: float) -> Event | None:
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def take(self, event: ChunkReady) -> ChunkPayload:
        return self._payloads.pop((event.stream_id, event.chunk))

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self.closed = True

    # ---- what tests do to it -------------------------------------------------------------------

    def crash(self, *, down_seconds: float = 0.05) -> None:
        """Like a killed process: jobs are lost, live streams come back."""
        with self._lock:
            self._events.put(EngineDown(reason="killed", restarting=True))
            jobs = [k for k, s in self.streams.items() if s.opened.kind == "job"]
            for stream_id in jobs:
                del self.streams[stream_id]
                self._events.put(StreamEnded(stream_id=stream_id, reason="engine_lost"))
            time.sleep(down_seconds)
            self._events.put(self.announcement())
            for stream_id, stream in self.streams.items():
                self._events.put(StreamOpened(stream_id=stream_id, recognised=stream.recognised))

    def fail(self) -> None:
        """Down for good."""
        with self._lock:
            self._events.put(EngineDown(reason="no luck", restarting=False))
            for stream_id in list(self.streams):
                del self.streams[stream_id]
                self._events.put(StreamEnded(stream_id=stream_id, reason="engine_lost"))

    def opened(self, kind: str) -> list[OpenStream]:
        """All streams of a kind that were ever opened."""
        found = [c for c in self.commands if isinstance(c, OpenStream)]
        return [command for command in found if command.kind == kind]

    def queue(self, stream_id: str) -> None:
        """As if a stream that was resumed found the engine full."""
        self._events.put(StreamQueued(stream_id=stream_id, position=1, estimated_seconds=None))

    # ---- inside --------------------------------------------------------------------------------

    def announcement(self) -> EngineReady:
        return EngineReady(
            pid=1,
            model="toybox",
            width=SIZE,
            height=SIZE,
            fps=FPS,
            chunk_frames=CHUNK_FRAMES,
            sample_rate=SAMPLE_RATE,
            default_steps=2,
            max_steps=4,
            window_chunks=12,
            weights=self.weights,
            replay_chunks=24,
            takes_reference=self.encodes,
            capacity_streams=self.capacity,
            step_ms={1: 5.0},
            decode_ms={1: 2.0},
            ring_slots=4,
            ring_slot_bytes=1,
        )

    def _open(self, command: OpenStream) -> None:
        live = sum(stream.opened.kind == "live" for stream in self.streams.values())
        if command.prompt == "invalid":
            self._refuse(command, "invalid", "The prompt cannot be encoded.")
        elif command.kind == "live" and live >= self.capacity and command.wait:
            self.waiting.append(command)
            self._tell_places()
        elif command.kind == "live" and live >= self.capacity:
            self._refuse(command, "capacity", f"{live} streams run, {self.capacity} fit.")
        else:
            parent = self.streams.get(command.fork_of or "")
            if parent is not None and parent.chunk == 0:
                self._refuse(command, "invalid", f"fork_of: {command.fork_of!r} has no chunk yet")
                return
            recognised = _words(prompt_text(command.prompt))
            stream = Stream(command, paused=command.paused, recognised=recognised)
            stream.chunk = parent.chunk if parent else _first(command)
            self.streams[command.stream_id] = stream
            opened = StreamOpened(stream_id=command.stream_id, recognised=stream.recognised)
            self._events.put(opened)

    def _let_in(self) -> None:
        if self.waiting and len(self.streams) < self.capacity:
            self._open(self.waiting.pop(0))
        self._tell_places()

    def _tell_places(self) -> None:
        for at, command in enumerate(self.waiting, 1):
            queued = StreamQueued(
                stream_id=command.stream_id, position=at, estimated_seconds=20.04 * at
            )
            self._events.put(queued)

    def _refuse(self, command: OpenStream, code: str, reason: str) -> None:
        refused = StreamRefused(
            stream_id=command.stream_id,
            code=code,
            reason=reason,
            queue_position=1,
            retry_after=2.0,
        )
        self._events.put(refused)

    def _control(self, stream: Stream, command: ControlStream) -> None:
        stream.revision = command.revision
        if command.paused is False and stream.paused and self.full:
            self.queue(stream.opened.stream_id)
        stream.paused = stream.paused if command.paused is None else command.paused
        if command.prompt is not None:
            stream.recognised = _words(prompt_text(command.prompt))

    def _run(self) -> None:
        started = time.monotonic()
        tick = 0
        while not self._stop.wait(0.005):
            tick += 1
            with self._lock:
                if not self.silent.is_set():
                    for stream_id, stream in list(self.streams.items()):
                        self._advance(stream_id, stream, started)
                if tick % 20 == 0:
                    self._report()

    def _advance(self, stream_id: str, stream: Stream, started: float) -> None:
        now = time.monotonic()
        live = stream.opened.kind == "live"
        due = started + (stream.chunk + 1) * CHUNK_FRAMES / FPS
        if stream.paused or (live and due - now > 0.4):
            return
        if stream.opened.prompt == "boom" and stream.chunk == 2:
            del self.streams[stream_id]
            self._events.put(StreamEnded(stream_id=stream_id, reason="failed", error="boom"))
            return
        if not live and self.job_chunk_seconds and not self._stop.wait(self.job_chunk_seconds):
            now = time.monotonic()
        self._chunk(stream_id, stream, max(due, now + 0.05), now)

    def _chunk(self, stream_id: str, stream: Stream, playout_at: float, now: float) -> None:
        if stream.revision > stream.applied:
            stream.applied = stream.revision
            applied = ControlApplied(
                stream_id=stream_id,
                revision=stream.revision,
                chunk=stream.chunk,
                playout_at=playout_at,
                recognised=stream.recognised,
            )
            self._events.put(applied)
        last = stream.opened.total_chunks == stream.chunk + 1
        self._payloads[(stream_id, stream.chunk)] = payload(stream.opened.seed, stream.chunk)
        self._events.put(_ready(stream_id, stream, playout_at, now, self.stall, last=last))
        stream.chunk += 1
        if last:
            del self.streams[stream_id]
            self._events.put(StreamEnded(stream_id=stream_id, reason="finished"))

    def _report(self) -> None:
        report = EngineStats(
            at=time.monotonic(),
            streams=[_stats(stream) for stream in self.streams.values()],
            waiting=len(self.waiting),
            pages_used=len(self.streams),
            pages_total=64,
            slots_used=len(self.streams),
            slots_total=8,
            busy_ratio=0.25,
            batch_rows=[1, 2],
            step_seconds=[0.004, 0.006],
            plan_seconds=[0.0001],
            decode_seconds=[0.003],
            utilisation=0.5,
            capacity_streams=self.capacity,
            costs=[COST],
            transfer=COPIES,
        )
        self._events.put(report)


def _first(command: OpenStream) -> int:
    if command.snapshot is None:
        return 0
    return unpack_snapshot(command.snapshot, chunk_bytes=0, keep=24).next_chunk


def _stats(stream: Stream) -> StreamStats:
    return StreamStats(
        stream_id=stream.opened.stream_id,
        kind=stream.opened.kind,
        chunks=stream.chunk,
        chunks_on_time=stream.chunk,
        chunks_late=0,
        chunks_dropped=0,
        steps_now=1,
        slack=0.1,
        paused=stream.paused,
        level=1,
        level_name="1 of 2 steps",
    )


def _traced(command: TraceRequest) -> TraceReply:
    now = time.monotonic()
    forward = Forward(now, now - 0.01, [Row("session_x", 3, "step", 1, 2, 1)])
    return TraceReply(
        request=command.request, start=now - command.seconds, end=now, records=[forward]
    )


def _words(prompt: str) -> list[str]:
    return [word for word in prompt.lower().split() if word in KNOWN_WORDS]


def payload(seed: int, chunk: int) -> ChunkPayload:
    """Pictures that depend on the seed and move; a tone."""
    rows = np.arange(SIZE * 3 // 2 * SIZE).reshape(1, SIZE * 3 // 2, SIZE)
    moved = rows + 5 * np.arange(CHUNK_FRAMES).reshape(-1, 1, 1) + 20 * chunk + seed % 97
    samples = CHUNK_FRAMES * SAMPLE_RATE // FPS
    times = (np.arange(samples) + chunk * samples) / SAMPLE_RATE
    audio = 6000 * np.sin(2 * np.pi * 440 * times)
    return ChunkPayload(frames=(moved % 200 + 20).astype(np.uint8), audio=audio.astype(np.int16))


def _ready(
    stream_id: str,
    stream: Stream,
    playout_at: float,
    now: float,
    stall: dict[str, float],
    *,
    last: bool,
) -> ChunkReady:
    live = stream.opened.kind == "live"
    usual = {"queue": 0.002, "denoise": 0.01, "commit": 0.0, "decode": 0.005, "convert": 0.001}
    times = {name: seconds + stall.get(name, 0.0) for name, seconds in usual.items()}
    return ChunkReady(
        stream_id=stream_id,
        chunk=stream.chunk,
        revision=stream.revision,
        slot=0,
        frames=CHUNK_FRAMES,
        frame_bytes=SIZE * SIZE * 3 // 2,
        samples=CHUNK_FRAMES * SAMPLE_RATE // FPS,
        latent_bytes=0,
        steps=stream.opened.steps or 2,
        playout_at=playout_at if live else 0.0,
        ready_at=now,
        on_time=True,
        stages=StageTimes(released_at=now - sum(times.values()), **times),
        last=last,
    )
