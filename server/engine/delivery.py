"""From a finished chunk to its slot: waiting for a slot, the decode lane, the stream's clock.

Owns no stream. What it is not: the decoding (decode.py) or the ring (slots.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.device import Decoded, DecodeJob, DecodeLane, Outcome
from onbeat.server.engine.messages import ChunkReady, Event, StageTimes
from onbeat.server.engine.misses import Finished, Misses
from onbeat.server.engine.slots import SlotWriter, latent_bytes
from onbeat.server.engine.streams import Stream
from onbeat.server.engine.trace import Trace

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The last forward. `commits_of`: streams whose commits it held; None: of all that waited, as
    it did nothing else."""

    started: float
    ended: float
    commits_of: frozenset[str] | None

    def held_up(self, stream: str, since: float) -> float:
        """Seconds of it from `since` on, if it was commits that the stream waited for."""
        if self.commits_of is not None and stream not in self.commits_of:
            return 0.0
        return max(0.0, self.ended - max(self.started, since))


class Delivery:
    """Chunks between their last step and their slot. The tick thread owns it."""

    def __init__(
        self,
        spec: ModelSpec,
        lane: DecodeLane,
        slots: SlotWriter,
        emit: Callable[[Event], None],
        *,
        misses: Misses,
        trace: Trace,
        playout_buffer: float,
    ) -> None:
        """`playout_buffer`: seconds from a first chunk being ready to it being due, at least."""
        self._spec, self._lane, self._slots, self._emit = spec, lane, slots, emit
        self._misses, self._trace, self._buffer = misses, trace, playout_buffer
        self._waiting: list[tuple[Finished, DecodeJob]] = []
        self._decoding: dict[int, Finished] = {}
        self._ran = Ran(started=0.0, ended=0.0, commits_of=frozenset())

    @property
    def waiting(self) -> int:
        """Chunks that have no slot yet."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._decoding

    def offer(self, finished: Finished, latents: DecodeJob) -> None:
        """Takes a finished chunk; `latents` is its decode job, still without a slot."""
        finished.stream.in_decode += 1
        self._waiting.append((finished, latents))

    def flush(self, now: float, open_streams: dict[str, Stream]) -> None:
        """Gives waiting chunks their slots; drops those that came too late to be played."""
        waiting, self._waiting = self._waiting, []
        for finished, job in waiting:
            stream = finished.stream
            if open_streams.get(stream.id) is not stream:
                continue
            due = stream.playout_at(finished.chunk, self._spec) if stream.is_live else None
            if due is not None and now > due:
                self._drop(finished, now, due)
            elif not self._submit(finished, job, now):
                self._waiting.append((finished, job))

    def _submit(self, finished: Finished, job: DecodeJob, now: float) -> bool:
        place = self._slots.acquire()
        if place is None:
            return False
        slot, data = place
        self._decoding[slot] = finished
        self._lane.submit(
            DecodeJob(
                stream=job.stream,
                chunk=job.chunk,
                latents=job.latents,
                state=job.state,
                slot=slot,
                data=data,
                deadline=job.deadline,
                queued_at=now,
            )
        )
        return True

    def _drop(self, finished: Finished, now: float, due: float) -> None:
        stream = finished.stream
        stream.in_decode -= 1
        stream.counters.dropped += 1
        stream.firm.note(False)
        self._misses.expired(finished, now, due)

    def ran(self, started: float, ended: float, outcome: Outcome) -> None:
        """A forward ran, for which chunks that were decoded meanwhile have waited."""
        commits = frozenset(stream.id for stream in outcome.committed)
        alone = commits and not outcome.stepped
        self._ran = Ran(started=started, ended=ended, commits_of=None if alone else commits)

    def collect(self, open_streams: dict[str, Stream], now: float) -> list[tuple[Stream, str]]:
        """Publishes what the decode lane has done. Returns streams that failed, with the reason;
        what came of their later chunks is worth nothing, as a decoder goes from chunk to chunk."""
        failed: dict[str, tuple[Stream, str]] = {}
        for result in self._lane.poll():
            self._trace.decoded(result)
            if result.job.data is None:
                continue
            finished = self._decoding.pop(result.job.slot)
            stream = finished.stream
            stream.in_decode -= 1
            gone = open_streams.get(stream.id) is not stream or stream.id in failed
            if gone or result.error is not None:
                self._slots.release(result.job.slot)
            if not gone and result.error is not None:
                failed[stream.id] = stream, result.error
            elif not gone:
                self._publish(finished, result, now)
        return list(failed.values())

    def _publish(self, finished: Finished, result: Decoded, now: float) -> None:
        stream, spec, counters = finished.stream, self._spec, finished.stream.counters
        if stream.is_live and stream.anchor is None:
            stream.start_clock(finished.chunk, result.ready_at + self._buffer, spec)
        due = stream.playout_at(finished.chunk, spec) if stream.is_live else 0.0
        assert due is not None
        stream.busy_until = due + spec.chunk_seconds
        cause = self._misses.delivered(finished, result, due) if stream.is_live else None
        on_time = cause is None
        counters.made += 1
        counters.on_time += on_time
        counters.late += not on_time
        stream.firm.note(on_time)
        self._emit(
            ChunkReady(
                stream_id=stream.id,
                chunk=finished.chunk,
                revision=finished.revision,
                slot=result.job.slot,
                frames=spec.chunk_frames,
                frame_bytes=spec.height * 3 // 2 * spec.width,
                samples=spec.chunk_samples,
                latent_bytes=latent_bytes(spec),
                steps=finished.steps,
                playout_at=due,
                ready_at=result.ready_at,
                on_time=on_time,
                cause=cause,
                stages=_stages(finished, result, now, self._ran),
                last=finished.last,
            )
        )

    def close(self) -> None:
        """Stops the lane and gives back every slot that no reader will see."""
        self._lane.close()
        for job in self._lane.abandoned():
            if job.data is not None:
                self._slots.release(job.slot)
                self._decoding.pop(job.slot)
        for result in self._lane.poll():
            if result.job.data is not None:
                self._slots.release(result.job.slot)
                self._decoding.pop(result.job.slot)
        self._waiting.clear()


def decode_job(
    stream: Stream, chunk: int, latents: "dict[str, Tensor]", spec: ModelSpec, now: float
) -> DecodeJob:
    """The decoding of a chunk, still without a slot."""
    due = stream.playout_at(chunk, spec) if stream.is_live else float("inf")
    return DecodeJob(
        stream=stream.id,
        chunk=chunk,
        latents=latents,
        state=stream.decoder,
        slot=-1,
        data=None,
        deadline=stream.wanted_at if due is None else due,
        queued_at=now,
    )


def _stages(finished: Finished, result: Decoded, now: float, ran: Ran) -> StageTimes:
    """`queue` is all waiting: before the first step, between steps, before the decoder, and from
    there until the tick that tells of the chunk, at `now`."""
    times = finished.times
    commit = times.commit + ran.held_up(finished.stream.id, result.ready_at)
    total = max(now, result.ready_at) - times.released
    worked = times.denoise + commit + result.decode + result.convert
    return StageTimes(
        released_at=times.released,
        queue=max(0.0, total - worked),
        denoise=times.denoise,
        commit=commit,
        decode=result.decode,
        convert=result.convert,
    )
