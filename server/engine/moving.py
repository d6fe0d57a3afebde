"""A stream that leaves for another engine, and one that comes from there or from an engine that is
gone: the latents of its window, seeds, counters, ladder level, prompt; no keys and values.

The new engine commits the latents again. So the chunks that follow have the bits that they would
have had here after a pause that left the stream its latents alone; they differ from those of a
stream that never moved once chunks have left its window, as the oldest chunk that is committed
again does not see the ones before it. A chunk under way begins again, with the same noise.
What it is not: the commands' delivery, or the books of pages (residency.py).
"""

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from onbeat.models.spec import ModelSpec
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.device import Executor
from onbeat.server.engine.messages import ControlStream, OpenStream, StreamExported
from onbeat.server.engine.slots import latent_bytes
from onbeat.server.engine.snapshot import Snapshot, Tallies, pack, unpack_snapshot
from onbeat.server.engine.streams import Conditions, Counters, Stream, history_chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Where a stream begins."""

    next_chunk: int = 0
    history: list[ChunkState] = field(default_factory=list)
    fresh: bool = True
    level: int = 0
    counters: Counters = field(default_factory=Counters)
    skipped: int = 0
    """Chunks that its decoder has heard before the last one."""


def leave(stream_id: str, stream: Stream | None, executor: Executor) -> StreamExported:
    """The commands that go on with the stream elsewhere. It stays here until it is closed."""
    if stream is None:
        return StreamExported(stream_id=stream_id)
    snapshot = Snapshot(
        next_chunk=stream.chunk,
        latents=[executor.save(state) for state in stream.history],
        chunks=[state.chunk for state in stream.history],
        seeds=[state.seed for state in stream.history],
        fresh=stream.fresh,
        level=stream.ladder.level,
        tallies=_tallies(stream.counters),
    )
    now = stream.now
    opening = msgspec.structs.replace(
        stream.opened,
        prompt=now.prompt,
        seed=now.seed,
        steps=now.steps,
        revision=now.revision,
        paused=stream.paused,
        transition=now.transition,
        fork_of=None,
        snapshot=pack(snapshot),
        video_input=stream.opened.video_input
        and msgspec.structs.replace(stream.opened.video_input, strength=now.strength),
    )
    return StreamExported(
        stream_id=stream_id, opening=opening, pending=_control(stream_id, stream.pending)
    )


def _control(stream_id: str, pending: Conditions | None) -> ControlStream | None:
    if pending is None:
        return None
    return ControlStream(
        stream_id=stream_id,
        revision=pending.revision,
        prompt=pending.prompt,
        transition=pending.transition,
        seed=pending.seed,
        steps=pending.steps,
        strength=pending.strength,
        blend_chunks=pending.blend.chunks if pending.blend is not None else None,
        reset=pending.reset,
    )


def arrive(command: OpenStream, spec: ModelSpec, executor: Executor) -> Arrival:
    """A new stream, or one with a snapshot. Raises ValueError if that cannot be read."""
    if command.snapshot is None:
        return Arrival()
    snapshot = unpack_snapshot(
        command.snapshot,
        chunk_bytes=latent_bytes(spec),
        keep=history_chunks(command.kind, spec),
    )
    count, end = len(snapshot.latents), snapshot.next_chunk
    seeds = snapshot.seeds or [command.seed] * count
    chunks = snapshot.chunks or range(max(0, end - count), max(0, end - count) + count)
    history = [
        executor.restore(seed, chunk, data)
        for seed, chunk, data in zip(seeds, chunks, snapshot.latents, strict=True)
    ]
    return Arrival(
        next_chunk=snapshot.next_chunk,
        history=history,
        fresh=not history if snapshot.fresh is None else snapshot.fresh,
        level=snapshot.level,
        counters=_counters(snapshot.tallies),
        skipped=max(0, (snapshot.decoded or 0) - 1) if history else 0,
    )


def _tallies(counters: Counters) -> Tallies:
    names = Tallies.__struct_fields__
    values = {name: getattr(counters, name) for name in names}
    return Tallies(**values | {"by_steps": dict(counters.by_steps)})


def _counters(tallies: Tallies) -> Counters:
    values = msgspec.structs.asdict(tallies)
    return Counters(**values | {"by_steps": Counter(tallies.by_steps)})
