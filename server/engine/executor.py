"""Runs one batch of rows: gathers their latents, times, prompts and page tables, calls the model
once, and gives each row its next state. Decides nothing and waits for nothing.

Steps and commits of any streams, at any step and noise level, share one forward. Prefills of
prompts run before it. A row that raises takes nobody with it: the batch is then run row by row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from onbeat.models.spec import CausalModel
from onbeat.samplers.consistency import (
    commit_latents,
    init_rows,
    latents_of,
    step_rows,
    times_of,
)
from onbeat.samplers.state import ChunkState
from onbeat.server.engine.pool import KVPool
from onbeat.server.engine.streams import Stream

NOISE_STREAM = 0
"""One noise stream for all: equal seeds give equal pictures, whatever the stream is called."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Streams whose rows ran, by kind of work, and what went wrong with others."""

    stepped: list[Stream] = field(default_factory=list)
    committed: list[Stream] = field(default_factory=list)
    failed: list[tuple[Stream, str]] = field(default_factory=list)


class Executor:
    """Tensor work of the compute lane. One thread only."""

    def __init__(self, model: CausalModel, pool: KVPool) -> None:
        self._model = model
        self._pool = pool
        self._spec = model.spec

    def start_chunks(self, streams: Sequence[Stream], steps: Sequence[int]) -> None:
        """Gives each stream the noise of its next chunk."""
        states = init_rows(
            self._spec.modalities,
            [s.now.seed for s in streams],
            [NOISE_STREAM] * len(streams),
            [s.chunk for s in streams],
            list(steps),
        )
        for stream, state in zip(streams, states, strict=True):
            stream.state = state

    def prefill(self, streams: Sequence[Stream]) -> list[tuple[Stream, str]]:
        """Fills the prompts' pages, each page once. Returns the streams that failed."""
        by_sink = {s.sink: s for s in streams}
        failed: list[tuple[Stream, str]] = []
        for sink, stream in by_sink.items():
            try:
                kv = self._pool.view([stream.window.table(sink)], [sink])
                self._model.prefill_prompt([stream.now.encoded], kv)
                self._pool.mark_filled(sink)
            except (RuntimeError, ValueError, ArithmeticError) as error:
                failed += [(s, _text(error)) for s in streams if s.sink == sink]
        return failed

    def run(self, steps: Sequence[Stream], commits: Sequence[Stream]) -> Outcome:
        """One forward of `steps` (their chunk's next step) and `commits` (their oldest
        uncommitted chunk); no stream may be in both."""
        try:
            self._forward(steps, commits)
        except (RuntimeError, ValueError, ArithmeticError) as error:
            if len(steps) + len(commits) == 1:
                return Outcome(failed=[(s, _text(error)) for s in (*steps, *commits)])
            return self._row_by_row(steps, commits)
        return Outcome(stepped=list(steps), committed=list(commits))

    def _row_by_row(self, steps: Sequence[Stream], commits: Sequence[Stream]) -> Outcome:
        total = Outcome()
        parts = [self.run([s], []) for s in steps] + [self.run([], [s]) for s in commits]
        for part in parts:
            total.stepped += part.stepped
            total.committed += part.committed
            total.failed += part.failed
        return total

    def _forward(self, steps: Sequence[Stream], commits: Sequence[Stream]) -> None:
        states = [_state(s) for s in steps]
        latents, times = self._inputs(states, [s.uncommitted[0] for s in commits])
        rows = [*steps, *commits]
        kv = self._pool.view(
            [s.window.table(s.sink) for s in rows],
            [-1] * len(steps) + [s.window.next_page() for s in commits],
        )
        pooled = torch.stack([s.now.encoded.pooled for s in rows])
        x0 = self._model.denoise(latents, times, pooled, kv)
        if states:
            predictions = {name: x[: len(steps)] for name, x in x0.items()}
            for stream, state in zip(steps, step_rows(states, predictions), strict=True):
                stream.state = state
        for stream in commits:
            stream.window.advance()
            stream.uncommitted.popleft()

    def _inputs(
        self, states: Sequence[ChunkState], finished: Sequence[ChunkState]
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Latents and times of step rows, then of commit rows."""
        if not finished:
            return latents_of(states), times_of(states)
        latents, times = commit_latents(finished, self._spec.context_noise)
        if not states:
            return latents, times
        first, levels = latents_of(states), times_of(states)
        return (
            {name: torch.cat([first[name], latents[name]]) for name in first},
            {name: torch.cat([levels[name], times[name]]) for name in levels},
        )


def _state(stream: Stream) -> ChunkState:
    assert stream.state is not None, f"{stream.id}: chunk {stream.chunk} has not begun"
    return stream.state


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
