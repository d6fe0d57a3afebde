"""One try at one job: a stream of the engine becomes a file. Runs in a thread of its own.

Each chunk is on the disk before the next one counts (workspace.py), so the next try goes on where
this one ends, with the same picture and sound. Memory is bounded: when encoder or disk fall behind,
the stream is paused. What it is not: which job
runs when, and what becomes of one that did not end well (worker.py).
"""

import contextlib
import logging
import queue
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import msgspec
import psutil

from onbeat.server.engine.client import ChunkPayload
from onbeat.server.engine.messages import (
    ChunkReady,
    CloseStream,
    Command,
    ControlStream,
    EngineDown,
    EngineReady,
    Event,
    OpenStream,
    StreamEnded,
    StreamOpened,
    StreamRefused,
)
from onbeat.server.engine.snapshot import Snapshot, pack
from onbeat.server.jobs import inputs, pace
from onbeat.server.jobs.artifacts import Artifacts
from onbeat.server.jobs.formats import VARIANTS, Variant
from onbeat.server.jobs.job import Job
from onbeat.server.jobs.segments import write_stills
from onbeat.server.jobs.store import JobStore, LeaseLost
from onbeat.server.jobs.workspace import Workspace, layout_of

log = logging.getLogger("onbeat.jobs")

NOTE_SECONDS = 1.0
QUEUE_BYTES = 32 * 1024 * 1024

Sink = Callable[[Event, ChunkPayload | None], None]


class EngineDoor(Protocol):
    """What jobs need of the engine. Sinks are called on a foreign thread and must not block."""

    @property
    def state(self) -> str: ...

    @property
    def ready(self) -> EngineReady | None: ...

    def send(self, command: Command) -> None: ...

    def attach(self, stream_id: str, sink: Sink) -> None: ...

    def detach(self, stream_id: str) -> None: ...


class EngineLost(Exception):
    """The engine went down under the job: start over."""


class NotNow(Exception):
    """The engine has no room: later. `delay` in seconds."""

    def __init__(self, delay: float) -> None:
        super().__init__(delay)
        self.delay = delay


class Stopped(Exception):
    """`stop` was called."""


class JobFailed(Exception):
    """The job cannot be done; it would fail again. `code` is for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Attempt:
    """`run` it in a thread; `stop` it from any other."""

    def __init__(
        self,
        job: Job,
        ready: EngineReady,
        door: EngineDoor,
        store: JobStore,
        artifacts: Artifacts,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`tell`: called with the job's id when its row has changed."""
        self.job = job
        self._tell = tell
        self._began_at = time.monotonic()
        self._ready = ready
        self._door = door
        self._store = store
        self._artifacts = artifacts
        self._stream_id = f"{job.id}.{job.fence}"
        self._inbox: queue.SimpleQueue[tuple[Event, ChunkPayload | None] | None]
        self._inbox = queue.SimpleQueue()
        self._paused = self._stopped = False
        self._noted_at = 0.0
        self._peak_memory: float | None = None
        self._stages: dict[str, float] = {}
        self._first = 0
        """The first chunk that this attempt makes."""
        chunk_bytes = ready.chunk_frames * ready.width * ready.height * 3 // 2
        self._high_water = max(4, QUEUE_BYTES // chunk_bytes)

    @property
    def chunks(self) -> int:
        """How many chunks the job takes."""
        return -(-self.job.request.frames // self._ready.chunk_frames)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began_at

    def stop(self) -> None:
        """Makes `run` raise Stopped soon. Thread-safe."""
        self._stopped = True
        self._inbox.put(None)

    def run(self) -> Job:
        """Generates, encodes and publishes; the job as completed.

        Raises EngineLost, NotNow, Stopped, JobFailed, LeaseLost, OSError.
        """
        self._check_model()
        root = self._artifacts.work
        ready = self._ready
        layout = layout_of(self.job.request, ready.chunk_frames, ready.sample_rate, ready.weights)
        with Workspace(root, self.job, layout) as work:
            self._resume(work)
            if work.chunks < self.chunks:
                self._generate(work)
            done = self._finish(work)
            work.remove()
        return done

    def _resume(self, work: Workspace) -> None:
        """Goes on with the chunk behind those that are there; says so at once, so that no attempt
        that got further counts as one that did not."""
        known = max(self.job.checkpoint, work.chunks, work.of_other_weights)
        reason = "other_weights" if work.of_other_weights else "work_lost"
        if work.chunks and not self._goes_on(work):
            work.clear()
            reason = "input_in_window"
        if known and not work.chunks:
            log.warning("job %s starts over: %s (%d chunks)", self.job.id, reason, known)
            self._store.start_over(self.job, reason, known)
            self.job = replace(self.job, checkpoint=0, progress=0.0)
        if work.chunks:
            self._first = work.chunks
            self._advance(work.chunks)
            log.info("job %s goes on with chunk %d", self.job.id, work.chunks)

    def _finish(self, work: Workspace) -> Job:
        """The files first, the row after: what is called completed can be read."""
        parts: dict[Variant, Path] = {
            variant: self._artifacts.part(self.job.id, self.job.fence, variant)
            for variant in VARIANTS
        }
        began = time.monotonic()
        try:
            self._join(work, parts)
            self._stages["join"] = time.monotonic() - began
            return self._publish(parts)
        finally:
            for part in parts.values():
                part.unlink(missing_ok=True)

    def _join(self, work: Workspace, parts: dict[Variant, Path]) -> None:
        request, segments = self.job.request, work.segments()
        work.kind.join(
            request, segments, work.sound(), self._ready.sample_rate, parts["video"], self._check
        )
        per_segment = work.layout.segment_chunks * self._ready.chunk_frames
        write_stills(request, segments, per_segment, parts["thumbnail"], parts["spritesheet"])

    def _check(self) -> None:
        """Raises Stopped if it was asked to."""
        if self._stopped:
            raise Stopped

    def _publish(self, parts: dict[Variant, Path]) -> Job:
        result: dict[str, Any] = {
            variant: msgspec.to_builtins(
                self._artifacts.publish(part, self.job.id, variant, self.job.request.format)
            )
            for variant, part in parts.items()
        }
        try:
            return self._store.complete(
                self.job,
                self._peak_memory,
                run_seconds=self.seconds,
                stages=self._stages,
                result=result,
                expires_at=self._artifacts.expires_at(time.time()),
            )
        except LeaseLost:
            now = self._store.get(self.job.id)
            if now is None or now.state == "cancelled":
                self._artifacts.remove(self.job.id)
            raise

    def _check_model(self) -> None:
        """A job made for one model is not quietly made by another."""
        asked, ready = self.job.request, self._ready
        wanted = (asked.model, asked.width, asked.height, asked.fps)
        if wanted != (ready.model, ready.width, ready.height, ready.fps):
            message = f"The job is for {asked.model} at {asked.width}x{asked.height}, {asked.fps}"
            raise JobFailed("model_unavailable", f"{message} fps; {ready.model} is served now.")

    def _generate(self, work: Workspace) -> None:
        """All chunks that are not there yet, from where the stream stood."""
        self._door.attach(self._stream_id, self._sink)
        try:
            self._door.send(self._opening(work))
            while work.chunks < self.chunks:
                self._next(work)
        finally:
            self._door.detach(self._stream_id)
            self._door.send(CloseStream(stream_id=self._stream_id))

    def _opening(self, work: Workspace) -> OpenStream:
        request = self.job.request
        snapshot = None
        if work.chunks:
            latents = work.latents(self._ready.replay_chunks)
            at = work.chunks
            heard = at + bool(request.input_digest)  # what it began from, too
            snapshot = pack(Snapshot(next_chunk=at, latents=latents, decoded=heard))
        return OpenStream(
            stream_id=self._stream_id,
            kind="job",
            prompt=request.prompt,
            seed=request.seed,
            steps=request.steps,
            total_chunks=self.chunks,
            owner=request.owner,
            snapshot=snapshot,
            reference=None if snapshot else self._input(),
        )

    def _input(self) -> bytes | None:
        """What the job begins from."""
        if not self.job.request.input_digest:
            return None
        with self._store.database.reading() as connection:
            return inputs.read(connection, self.job.id)

    def _goes_on(self, work: Workspace) -> bool:
        """Whether the chunks that are there are all that the next one depends on."""
        replayed = self._ready.replay_chunks
        return replayed > 0 and (not self.job.request.input_digest or work.chunks >= replayed)

    def _next(self, work: Workspace) -> None:
        """Waits for the next event and acts on it."""
        entry = self._inbox.get()
        if entry is None:
            raise Stopped
        self._flow()
        event, payload = entry
        match event:
            case ChunkReady():
                assert payload is not None
                began = time.monotonic()
                assert event.chunk == work.chunks, f"chunk {event.chunk} after {work.chunks}"
                work.add(payload.frames, payload.audio, payload.latents)
                self._count(event, time.monotonic() - began)
                self._note(work.chunks)
            case StreamOpened(recognised=recognised):
                self._store.note_recognised(self.job, recognised)
            case StreamRefused(code="invalid", reason=reason):
                raise JobFailed("invalid_prompt", reason)
            case StreamRefused(retry_after=delay):
                raise NotNow(delay)
            case EngineDown() | StreamEnded(reason="engine_lost"):
                raise EngineLost
            case StreamEnded(reason=reason, error=error):
                text = error or f"The engine ended the stream early: {reason}."
                raise JobFailed("generation_failed", text)

    def _count(self, event: ChunkReady, encode: float) -> None:
        """Seconds by stage."""
        stages = event.stages
        for name in ("queue", "denoise", "decode", "convert"):
            self._stages[name] = self._stages.get(name, 0.0) + getattr(stages, name)
        self._stages["encode"] = self._stages.get("encode", 0.0) + encode

    def _note(self, done: int) -> None:
        """Writes down how many chunks are done, at most once a second."""
        now = time.monotonic()
        if now - self._noted_at < NOTE_SECONDS:
            return
        self._noted_at = now
        self._measure()
        self._advance(done)

    def _advance(self, done: int) -> None:
        detail = pace.told(
            done=done,
            first=self._first,
            chunks=self.chunks,
            chunk_frames=self._ready.chunk_frames,
            seconds=self.seconds,
        )
        progress = min(done / self.chunks, 0.99)
        self._store.advance(self.job, checkpoint=done, progress=progress, detail=detail)
        self._tell(self.job.id)

    def _measure(self) -> None:
        with contextlib.suppress(psutil.Error):
            used = psutil.Process(self._ready.pid).memory_info().rss / 1e6
            self._peak_memory = round(max(used, self._peak_memory or 0.0), 1)

    # ---- back-pressure -------------------------------------------------------------------------

    def _sink(self, event: Event, payload: ChunkPayload | None) -> None:
        """On the reader thread."""
        self._inbox.put((event, payload))
        if self._inbox.qsize() > self._high_water and not self._paused:
            self._pause(True)

    def _flow(self) -> None:
        if self._paused and self._inbox.qsize() < self._high_water // 2:
            self._pause(False)

    def _pause(self, paused: bool) -> None:
        self._paused = paused
        self._door.send(ControlStream(stream_id=self._stream_id, revision=0, paused=paused))
