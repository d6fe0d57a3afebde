"""Runs one batch of rows: gathers their latents, times, prompts and page tables, calls the model
once, and gives each row its next state. Decides nothing and waits for nothing.

Steps and commits of any streams, at any step and noise level, share one forward; several chunks of
one stream too, as a commit's row reads what the rows before it have written in the same layer.
Prefills of prompts run before it. A row that raises takes nobody with it: the batch is then run
stream by stream.
"""

import copy
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from onbeat.models.spec import CausalModel, EncodedPrompt
from onbeat.samplers.consistency import end_chunk, start_rows, step_rows
from onbeat.samplers.serving import commit_inputs, served_samplers, step_inputs
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.device import Outcome
from onbeat.server.engine.input_start import begin, encode_clip
from onbeat.server.engine.input_track import Clip
from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.lanes import InlineLane, Lane, Pair, halfway
from onbeat.server.engine.reference import Reference
from onbeat.server.engine.streams import Stream

SWITCH_SECONDS = 0.0005
"""The two lanes hand the interpreter to each other at least this often."""
NOISE_STREAM = 0
"""One noise stream for all: equal seeds give equal pictures, whatever the stream is called."""
REFERENCE_SEED, REFERENCE_STREAM = 0, 1
"""Of the commits of reference media, whatever the seed: equal references share their pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The rows of one forward, gathered: steps first, then the commits of each piece in turn."""

    steps: Sequence[Stream]
    commits: Sequence[Stream]
    states: Sequence[ChunkState]
    finished: Sequence[ChunkState]
    pooled: Sequence[torch.Tensor]
    tables: Sequence[Sequence[int]]
    written: Sequence[int]


class TorchExecutor:
    """Tensor work of the compute lane (see `Executor` in device.py), which runs in `lane`."""

    def __init__(
        self,
        model: CausalModel,
        store: KVStore,
        threads: int = 1,
        lane: Lane | None = None,
        split_rows: int = 0,
    ) -> None:
        """`split_rows`: from so many rows on a batch runs as two halves, with half of the
        `threads` each; 0: never."""
        self._model, self._store, self._threads = model, store, threads
        self._lane = lane or InlineLane()
        self._spec = model.spec
        self._split_rows = split_rows
        self._pair = Pair(threads) if split_rows else None

    def start(self) -> None:
        torch.set_num_threads(self._threads)
        sys.setswitchinterval(SWITCH_SECONDS)

    @torch.inference_mode()
    def encode_prompt(self, prompt: str) -> EncodedPrompt:
        encoded = self._model.encode_prompt(prompt)
        return replace(encoded, digest=_digest(encoded))

    def new_decoder_state(self) -> Any:
        return self._model.new_decoder_state()

    def skip_chunks(self, state: Any, chunks: int) -> None:
        self._model.skip_chunks(state, chunks)

    @torch.inference_mode()
    def copy_decoder(self, state: Any) -> Any:
        return copy.deepcopy(state)

    @torch.inference_mode()
    def encode_reference(self, reference: Reference, index: int) -> ChunkState:
        frames, sound = reference.chunk(index)
        latents = self._model.encode_media(
            torch.from_numpy(frames.copy()), torch.from_numpy(sound.copy())
        )
        return self._finished(REFERENCE_SEED, REFERENCE_STREAM, index, latents)

    @torch.inference_mode()
    def encode_input(self, clip: Clip) -> dict[str, torch.Tensor]:
        return encode_clip(self._model, clip)

    def restore(self, seed: int, chunk: int, data: bytes) -> ChunkState:
        flat, latents, at = np.frombuffer(data, np.float32), {}, 0
        for m in self._spec.modalities:
            values = flat[at : at + m.tokens * m.dim].reshape(m.tokens, m.dim)
            latents[m.name] = torch.from_numpy(values.copy()).to(self._store.k.device)
            at += m.tokens * m.dim
        return self._finished(seed, NOISE_STREAM, chunk, latents)

    def _finished(
        self, seed: int, stream: int, chunk: int, latents: dict[str, torch.Tensor]
    ) -> ChunkState:
        """The chunk that these latents are; the numbers name the noise of its commit."""
        return ChunkState(
            seed=seed,
            stream=stream,
            chunk=chunk,
            step=1,
            steps=1,
            samplers=served_samplers(self._spec.modalities, 1),
            latents=latents,
            x0=latents,
        )

    def save(self, state: ChunkState) -> bytes:
        latents = (state.latents[m.name] for m in self._spec.modalities)
        return b"".join(x.cpu().numpy().astype("<f4", copy=False).tobytes() for x in latents)

    @torch.inference_mode()
    def end_chunk(self, state: ChunkState) -> ChunkState:
        return _final(end_chunk(state))

    @torch.inference_mode()
    def start_chunks(self, streams: Sequence[Stream], steps: Sequence[int]) -> None:
        """Gives each stream the noise of its next chunk, over what its input has settled."""
        begins = [begin(s, count, self._spec) for s, count in zip(streams, steps, strict=True)]
        states = start_rows(
            self._spec.modalities,
            [s.now.seed for s in streams],
            [NOISE_STREAM] * len(streams),
            [s.chunk for s in streams],
            [b.samplers for b in begins],
            [b.source for b in begins],
            device=self._store.k.device,
        )
        for stream, state in zip(streams, states, strict=True):
            stream.state = state

    @torch.inference_mode()
    def prefill(self, streams: Sequence[Stream]) -> list[tuple[Stream, str]]:
        """Fills the prompts' pages, each page once. Returns the streams that failed."""
        by_sink = {s.sink: s for s in streams}
        failed: list[tuple[Stream, str]] = []
        for sink, stream in by_sink.items():
            try:
                kv = self._store.view([stream.window.table(sink)], [sink])
                self._model.prefill_prompt([stream.now.encoded], kv)
            except (RuntimeError, ValueError, ArithmeticError) as error:
                failed += [(s, _text(error)) for s in streams if s.sink == sink]
        return failed

    def run(self, steps: Sequence[Stream], commits: Sequence[Stream]) -> Outcome:
        return self.launch(steps, commits)()

    def launch(self, steps: Sequence[Stream], commits: Sequence[Stream]) -> Callable[[], Outcome]:
        """One forward of `steps` (their chunk's next step) and `commits` (their oldest
        uncommitted chunks, `piece` of each as consecutive rows); no stream may be in both."""
        batch = _gather(steps, commits)
        return partial(self._finish, batch, self._lane.launch(partial(self._compute, batch)))

    def close(self) -> None:
        self._lane.close()
        if self._pair is not None:
            self._pair.close()

    def _finish(self, batch: Batch, results: Callable[[], Sequence[ChunkState]]) -> Outcome:
        steps, commits = batch.steps, batch.commits
        try:
            states = results()
        except (RuntimeError, ValueError, ArithmeticError) as error:
            if len(steps) + len(commits) == 1:
                return Outcome(failed=[(s, _text(error)) for s in (*steps, *commits)])
            return self._row_by_row(steps, commits)
        for stream, state in zip(steps, states, strict=True):
            stream.state = state
        for stream in commits:
            stream.window.advance(stream.piece)
            for _ in range(stream.piece):
                stream.uncommitted.popleft()
        return Outcome(stepped=list(steps), committed=list(commits))

    def _row_by_row(self, steps: Sequence[Stream], commits: Sequence[Stream]) -> Outcome:
        total = Outcome()
        parts = [self.run([s], []) for s in steps] + [self.run([], [s]) for s in commits]
        for part in parts:
            total.stepped += part.stepped
            total.committed += part.committed
            total.failed += part.failed
        return total

    @torch.inference_mode()
    def _compute(self, batch: Batch) -> Sequence[ChunkState]:
        """Tensors only: the next states of the step rows. Commits write to their pages."""
        latents, times = self._inputs(batch.states, batch.finished)
        x0 = self._predict(batch, latents, times)
        if not batch.states:
            return ()
        predictions = {name: x[: len(batch.states)] for name, x in x0.items()}
        return [_final(s) if s.done else s for s in step_rows(batch.states, predictions)]

    def _predict(
        self, batch: Batch, latents: dict[str, torch.Tensor], times: dict[str, torch.Tensor]
    ) -> Mapping[str, torch.Tensor]:
        """The forward itself: x0 of every row."""
        rows = len(batch.written)
        cut = halfway(rows, [s.piece for s in batch.commits])
        if self._pair is None or rows < self._split_rows or not 0 < cut < rows:
            return self._part(batch, latents, times, slice(0, rows))
        first, second = self._pair.run(
            partial(self._part, batch, latents, times, slice(0, cut)),
            partial(self._part, batch, latents, times, slice(cut, rows)),
        )
        return {name: torch.cat([first[name], second[name]]) for name in first}

    @torch.inference_mode()
    def _part(
        self,
        batch: Batch,
        latents: dict[str, torch.Tensor],
        times: dict[str, torch.Tensor],
        part: slice,
    ) -> Mapping[str, torch.Tensor]:
        """x0 of some of the rows."""
        kv = self._store.view(batch.tables[part], batch.written[part])
        return self._model.denoise(
            {name: x[part] for name, x in latents.items()},
            {name: x[part] for name, x in times.items()},
            torch.stack(list(batch.pooled[part])),
            kv,
        )

    def _inputs(
        self, states: Sequence[ChunkState], finished: Sequence[ChunkState]
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Latents and times of step rows, then of commit rows."""
        modalities = self._spec.modalities
        if not finished:
            return step_inputs(modalities, states)
        latents, times = commit_inputs(modalities, finished, self._spec.context_noise)
        if not states:
            return latents, times
        first, levels = step_inputs(modalities, states)
        return (
            {name: torch.cat([first[name], latents[name]]) for name in first},
            {name: torch.cat([levels[name], times[name]]) for name in levels},
        )


def _gather(steps: Sequence[Stream], commits: Sequence[Stream]) -> Batch:
    tables = [s.window.table(s.sink) for s in steps]
    written = [-1] * len(steps)
    for stream in commits:
        tables += stream.window.tables(stream.sink, stream.piece)
        written += stream.window.write_pages(stream.piece)
    rows = [*steps, *(s for s in commits for _ in range(s.piece))]
    return Batch(
        steps=steps,
        commits=commits,
        states=[_state(s) for s in steps],
        finished=[chunk for s in commits for chunk in islice(s.uncommitted, s.piece)],
        pooled=[s.now.encoded.pooled for s in rows],
        tables=tables,
        written=written,
    )


def _digest(encoded: EncodedPrompt) -> str:
    content = hashlib.sha256(encoded.slots.cpu().numpy().tobytes())
    content.update(encoded.pooled.cpu().numpy().tobytes())
    return content.hexdigest()


def _state(stream: Stream) -> ChunkState:
    assert stream.state is not None, f"{stream.id}: chunk {stream.chunk} has not begun"
    return stream.state


def _final(state: ChunkState) -> ChunkState:
    """A finished chunk in memory of its own, so that it keeps no batch alive."""
    assert state.x0 is not None, f"chunk {state.chunk} has had no step"
    result = {name: x.clone() for name, x in state.x0.items()}
    return replace(state, latents=result, x0=result)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
