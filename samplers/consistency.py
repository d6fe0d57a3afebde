"""The multistep consistency sampler over ragged rows: pure functions, states in, states out.

Rows may differ in everything but the model: stream, chunk, step, number of steps. A model predicts
x0; the next state is (1 - s) x0 + s z, and exactly x0 when s is 0 (rectified-flow path).
Nothing here calls a model: the caller runs it on `latents_of` and `times_of`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from onbeat.kernels.consistency_step import consistency_step
from onbeat.samplers.noise import COMMIT, INITIAL, draw, noise_keys, renoise_step
from onbeat.samplers.schedule import rf_schedule
from onbeat.samplers.state import ChunkState

Device = torch.device | str


class Modality(Protocol):
    """What the sampler needs to know about one kind of token."""

    @property
    def name(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def shift(self) -> float: ...


def init_chunk(
    modalities: Sequence[Modality],
    seed: int,
    stream: int,
    chunk: int,
    steps: int,
    device: Device = "cpu",
) -> ChunkState:
    """Pure noise for one chunk, with `steps` evaluations ahead of it."""
    return init_rows(modalities, [seed], [stream], [chunk], [steps], device)[0]


def init_rows(
    modalities: Sequence[Modality],
    seeds: Sequence[int],
    streams: Sequence[int],
    chunks: Sequence[int],
    steps: Sequence[int],
    device: Device = "cpu",
) -> list[ChunkState]:
    """`init_chunk` for many rows at once: the same bits, one draw per modality.

    Raises ValueError for a step count below 1 or a number that a noise key cannot hold.
    """
    shifts = {m.name: m.shift for m in modalities}
    for count in steps:
        _check_steps(count)
    noise = {
        m.name: draw(
            noise_keys(seeds, streams, chunks, i, [INITIAL] * len(seeds)).to(device),
            (m.tokens, m.dim),
        )
        for i, m in enumerate(modalities)
    }
    return [
        ChunkState(
            seed=seed, stream=stream, chunk=chunk, step=0, steps=count, shifts=shifts, latents=x
        )
        for seed, stream, chunk, count, x in zip(
            seeds, streams, chunks, steps, _unbatch(noise, len(seeds)), strict=True
        )
    ]


def latents_of(states: Sequence[ChunkState]) -> dict[str, Tensor]:
    """The model's input: per modality float32 [r, n, d]."""
    return _batch([state.latents for state in states])


def times_of(states: Sequence[ChunkState]) -> dict[str, Tensor]:
    """The noise level of each row's latents: per modality float32 [r] on their device."""
    return {
        name: torch.tensor(
            [_level(state, name, state.step) for state in states],
            dtype=torch.float32,
            device=x.device,
        )
        for name, x in states[0].latents.items()
    }


def step_rows(states: Sequence[ChunkState], predictions: Mapping[str, Tensor]) -> list[ChunkState]:
    """One step of each row, given the model's x0 for all of them (float32 [r, n, d]).

    No row may be done. Idempotent: the same states and predictions give the same bits, in any
    batch; the states passed in do not change.
    """
    assert not any(state.done for state in states), [(s.step, s.steps) for s in states]
    steps = [renoise_step(state.step) for state in states]
    latents = {
        name: _renoise(
            states,
            i,
            x0,
            [_level(state, name, state.step + 1) for state in states],
            steps,
        )
        for i, (name, x0) in enumerate(_in_order(states, predictions).items())
    }
    count = len(states)
    rows = zip(states, _unbatch(latents, count), _unbatch(predictions, count), strict=True)
    return [replace(state, step=state.step + 1, latents=x, x0=x0) for state, x, x0 in rows]


def end_chunk(state: ChunkState) -> ChunkState:
    """Ends a chunk after the steps it has had (at least one): its last x0 becomes the result."""
    assert state.x0 is not None, (state.stream, state.chunk, state.step)
    return replace(state, steps=state.step, latents=state.x0)


def commit_latents(
    states: Sequence[ChunkState], context_noise: float
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The input of the pass that writes finished chunks to the cache: (latents, times).

    latents: (1 - t) x0 + t z, float32 [r, n, d]; times: t = `context_noise`, float32 [r].
    Each row must have had a step.
    """
    clean = [state.x0 for state in states if state.x0 is not None]
    assert len(clean) == len(states), [(s.stream, s.chunk, s.step) for s in states]
    levels, steps = [context_noise] * len(states), [COMMIT] * len(states)
    latents = {
        name: _renoise(states, i, x0, levels, steps)
        for i, (name, x0) in enumerate(_batch(clean).items())
    }
    times = {
        name: torch.full((len(states),), context_noise, dtype=torch.float32, device=x.device)
        for name, x in latents.items()
    }
    return latents, times


def _renoise(
    states: Sequence[ChunkState],
    modality: int,
    x0: Tensor,
    levels: Sequence[float],
    steps: Sequence[int],
) -> Tensor:
    keys = noise_keys(
        [state.seed for state in states],
        [state.stream for state in states],
        [state.chunk for state in states],
        modality,
        steps,
    )
    s = torch.tensor(levels, dtype=torch.float64).to(x0.device)
    flat = x0.flatten(1)
    return consistency_step(flat, flat, s, s, keys.to(x0.device)).view_as(x0)


def _level(state: ChunkState, modality: str, step: int) -> float:
    return rf_schedule(state.steps, state.shifts[modality]).times[step]


def _check_steps(steps: int) -> None:
    if not 1 <= steps < COMMIT:
        raise ValueError(f"steps is {steps}; allowed: 1 to {COMMIT - 1}")


def _in_order(states: Sequence[ChunkState], predictions: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Predictions in the model's order of modalities, which numbers their noise."""
    return {name: predictions[name] for name in states[0].latents}


def _batch(rows: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def _unbatch(batch: Mapping[str, Tensor], rows: int) -> list[dict[str, Tensor]]:
    split = {name: x.unbind(0) for name, x in batch.items()}
    return [{name: x[i] for name, x in split.items()} for i in range(rows)]
