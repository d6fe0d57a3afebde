"""When a stream takes up a new prompt, and what of its history the next chunk still sees.

"cut" keeps `kept_chunks` chunks as they were committed under the old prompt. "recache" keeps the
whole window and commits it again under the new one, in pieces; the stream waits for that, within
the lead that it has, or makes one more chunk of the old prompt if the lead is too short. "blend"
keeps all as it is and takes up a mixture of both prompts with every chunk. Plain numbers and
books. What it is not: what a tick does with the pieces (pieces.py).
"""

from dataclasses import replace

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.pieces import PIECE_ROWS, forwards
from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.scheduler import StepCost
from onbeat.server.engine.streams import Conditions, Stream

PATIENCE_CHUNKS = 5
"""After so many more chunks of the old prompt a recache begins, even if it will cost chunks."""


def recaches(stream: Stream) -> bool:
    """Whether the pending conditions begin with the window being committed again. A chunk under way
    will be in it."""
    pending = stream.pending
    return (
        pending is not None
        and pending.prompt != stream.now.prompt
        and pending.transition == "recache"
        and not pending.reset
        and (bool(stream.history) or stream.state is not None)
    )


def is_due(
    stream: Stream, now: float, spec: ModelSpec, *, compute_by: float, rows: int, cost: StepCost
) -> bool:
    """Whether a stream between two chunks takes up what is pending. `compute_by`: seconds before
    playout at which its last step must be done; `rows`: of a batch without its pieces."""
    if stream.begins_part:
        return False
    if not recaches(stream):
        return not stream.uncommitted and stream.release_at(spec) <= now
    due = stream.playout_at(stream.chunk, spec)
    if due is None or not stream.is_live or stream.chunk - stream.asked_at >= PATIENCE_CHUNKS:
        return True
    return now + recache_seconds(len(stream.history), rows, cost) <= due - compute_by


def recache_seconds(chunks: int, rows: int, cost: StepCost) -> float:
    """Until a first step under the new prompt is done: the prompt, the pieces, the step."""
    rows = max(1, rows)
    pieces = forwards(chunks, PIECE_ROWS) * cost.predict(rows + PIECE_ROWS)
    return pieces + 2 * cost.predict(rows)


def continued(now: Conditions) -> Conditions | None:
    """What is pending after a chunk under `now`: the next part of a blend, or nothing."""
    blend = now.blend.next() if now.blend is not None else None
    return None if blend is None else replace(now, blend=blend, encoded=blend.encoded)


def take_up(stream: Stream, spec: ModelSpec, pool: KVPool) -> None:
    """The next chunk gets the new prompt (and its page), seed and steps."""
    assert stream.pending is not None and stream.state is None, stream.id
    pending, new = stream.pending, stream.pending.prompt != stream.now.prompt
    if new or pending.blend is not stream.now.blend:
        pool.give_back(stream.sink)
        stream.sink = pool.take_sink(pending.encoded.digest)
    if pending.reset or (new and pending.blend is None):
        if recaches(stream):
            stream.recommit()
        else:
            assert not stream.uncommitted, f"{stream.id}: chunks of the old prompt are left"
            stream.forget(0 if pending.reset else spec.kept_chunks)
        stream.fresh = True
    stream.now = replace(pending, reset=False)
    stream.pending, stream.taken_at = continued(stream.now), stream.chunk
