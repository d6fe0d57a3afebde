"""What a stream needs before its first own chunk: a decoder that fits on, its reference encoded.

Done on the decode lane, as tasks beside the decodes: a reference one chunk a task, when no decode
waits. A stream that waits for them is `preparing`. Owned by the tick thread. What it is not: the
opening (roster.py) or the lane (decode.py).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from onbeat.models.spec import ModelSpec
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.delivery import decode_job
from onbeat.server.engine.device import DecodeLane, Executor, LaneTask
from onbeat.server.engine.fork import parent_of
from onbeat.server.engine.input_encode import EncodeCost, InputEncoder
from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.prefix import share_reference
from onbeat.server.engine.streams import Stream
from onbeat.server.engine.trace import Trace

Take = Callable[[Stream, Any, float], None]
"""What is done with a task's result: (stream, result, now)."""


class Intake:
    """Streams between their opening and their first own chunk."""

    def __init__(
        self,
        spec: ModelSpec,
        executor: Executor,
        lane: DecodeLane,
        pool: KVPool,
        trace: Trace,
        encoding: EncodeCost,
    ) -> None:
        self._spec, self._executor, self._lane, self._pool = spec, executor, lane, pool
        self._trace, self._encoding = trace, encoding
        self.inputs = InputEncoder(spec, executor, self._submit, encoding)
        self._running: dict[LaneTask, tuple[Stream, Take]] = {}
        self._sharing: list[Stream] = []
        """Streams whose reference is not committed yet."""

    def begin(self, stream: Stream | None, streams: Mapping[str, Stream], now: float) -> None:
        """A stream was opened, or was not; `streams`: the open ones, its parent among them."""
        if stream is None:
            return
        parent = parent_of(stream.opened, streams)
        if parent is not None:
            self._copy_decoder(stream, parent)
        elif stream.reference is not None:
            stream.preparing = True
            self._sharing.append(stream)
            self._encode(stream, 0)
        elif stream.history:
            self._warm(stream, now)

    def collect(self, open_streams: Mapping[str, Stream], now: float) -> list[tuple[Stream, str]]:
        """Takes what the lane has done. Returns streams that failed, with the reason."""
        failed = []
        for done in self._lane.poll_tasks():
            stream, take = self._running.pop(done.task)
            self._trace.task(done, stream.id)
            if done.error is None and done.task.deadline < float("inf"):
                self._encoding.observe(done.ended - done.started)
            if open_streams.get(stream.id) is not stream:
                continue
            if done.error is not None:
                failed.append((stream, done.error))
            else:
                take(stream, done.value, now)
        if self._sharing:
            self._share(open_streams)
        self.inputs.tick(open_streams.values(), now)
        return failed

    def _submit(self, stream: Stream, task: LaneTask, take: Take) -> None:
        self._running[task] = stream, take
        self._lane.submit_task(task)

    # ---- decoders ------------------------------------------------------------------------------

    def _warm(self, stream: Stream, now: float) -> None:
        """The decoder hears the last chunk of the history, so that the next one fits on."""
        last = stream.history[-1].latents
        self._lane.submit(decode_job(stream, stream.chunk - 1, last, self._spec, now))

    def _copy_decoder(self, stream: Stream, parent: Stream) -> None:
        """As the parent's is between its last finished chunk and its next, wherever it is now."""
        stream.preparing = True
        copy = partial(self._executor.copy_decoder, parent.decoder)
        task = LaneTask(run=copy, name="copy decoder", behind=parent.id, after=parent.chunk - 1)
        self._submit(stream, task, self._copied)

    def _copied(self, stream: Stream, decoder: Any, now: float) -> None:
        stream.decoder, stream.preparing = decoder, False

    # ---- references ----------------------------------------------------------------------------

    def _encode(self, stream: Stream, index: int) -> None:
        assert stream.reference is not None, stream.id
        encode = partial(self._executor.encode_reference, stream.reference, index)
        self._submit(stream, LaneTask(run=encode, name=f"reference {index}"), self._encoded)

    def _encoded(self, stream: Stream, state: ChunkState, now: float) -> None:
        """Its first own chunk is wanted from the moment on at which the last piece is there."""
        assert stream.reference is not None, stream.id
        stream.keep(state, self._spec)
        stream.unnamed.append(state.chunk)
        if state.chunk + 1 < stream.reference.chunks:
            self._encode(stream, state.chunk + 1)
        else:
            stream.preparing, stream.wanted_at = False, now
            self._warm(stream, now)

    def _share(self, open_streams: Mapping[str, Stream]) -> None:
        still = []
        for stream in self._sharing:
            if open_streams.get(stream.id) is not stream:
                continue
            if stream.place == "resident":
                share_reference(stream, self._pool)
            if stream.preparing or stream.unnamed:
                still.append(stream)
            else:
                stream.reference = None
        self._sharing = still
