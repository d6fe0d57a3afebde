"""The few-step sampler over ragged rows: pure functions, states in, states out.

Rows may differ in everything but the model's shapes: stream, chunk, step, number of steps,
schedule, family. A row's sampler gives the coefficients of its step; all rows run in one call.
Nothing here calls a model: the caller runs it on `inputs_of` and `times_of`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from onbeat.kernels._dispatch import place
from onbeat.kernels.consistency_step import consistency_step
from onbeat.samplers.families import rf_samplers
from onbeat.samplers.noise import COMMIT, INITIAL, noise_keys, renoise_step
from onbeat.samplers.sampler import Sampler
from onbeat.samplers.state import ChunkState

Device = torch.device | str
Latents = Mapping[str, Tensor]
Coefficients = Sequence[tuple[float, float, float, float, float, float]]


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
    """Pure noise for one chunk of a rectified-flow model, with `steps` evaluations ahead of it."""
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
    for count in steps:
        _check_steps(count)
    samplers = [rf_samplers(modalities, count) for count in steps]
    return start_rows(modalities, seeds, streams, chunks, samplers, device=device)


def start_rows(
    modalities: Sequence[Modality],
    seeds: Sequence[int],
    streams: Sequence[int],
    chunks: Sequence[int],
    samplers: Sequence[Mapping[str, Sampler]],
    sources: Sequence[Latents | None] | None = None,
    device: Device = "cpu",
) -> list[ChunkState]:
    """Chunks at the first level of their samplers (per row and modality), all rows at once.

    sources: clean latents (float32 [n, d] per modality) that a row starts from instead of from
    noise alone, for a sampler begun part of the way down (`onbeat.samplers.schedule.at_strength`).
    A modality that a row's source lacks starts from noise.
    Raises ValueError for a row whose modalities differ in their number of steps.
    """
    counts = [_steps_of(row) for row in samplers]
    given = list(sources) if sources is not None else [None] * len(counts)
    states = [
        ChunkState(
            seed=seed,
            stream=stream,
            chunk=chunk,
            step=0,
            steps=count,
            samplers={m.name: row[m.name] for m in modalities},
            latents={},
        )
        for seed, stream, chunk, count, row in zip(
            seeds, streams, chunks, counts, samplers, strict=True
        )
    ]
    latents = {
        m.name: _initial(states, i, m, [s.get(m.name) if s else None for s in given], device)
        for i, m in enumerate(modalities)
    }
    rows = zip(states, _unbatch(latents), strict=True)
    return [replace(state, latents=x) for state, x in rows]


def latents_of(states: Sequence[ChunkState]) -> dict[str, Tensor]:
    """The rows' latents: per modality float32 [r, n, d]."""
    return _batch([state.latents for state in states])


def inputs_of(states: Sequence[ChunkState]) -> dict[str, Tensor]:
    """The network's input, `latents_of` scaled as each row's family wants it (c_in)."""
    return {
        name: _scaled(x, [s.samplers[name].input_scales[s.step] for s in states])
        for name, x in latents_of(states).items()
    }


def times_of(states: Sequence[ChunkState]) -> dict[str, Tensor]:
    """What the network is told of each row's noise level: per modality float32 [r]."""
    return _network_times(states, 0)


def targets_of(states: Sequence[ChunkState]) -> dict[str, Tensor]:
    """`times_of` after the next step: the second time input of a flow map. No row may be done."""
    return _network_times(states, 1)


def step_rows(states: Sequence[ChunkState], predictions: Latents) -> list[ChunkState]:
    """One step of each row, given the network's output for all of them (float32 [r, n, d]).

    No row may be done. Idempotent: the same states and predictions give the same bits, in any
    batch; the states passed in do not change.
    """
    assert not any(state.done for state in states), [(s.step, s.steps) for s in states]
    steps = [renoise_step(state.step) for state in states]
    after, clean = {}, {}
    for i, name in enumerate(states[0].latents):  # in the model's order, which numbers the noise
        table = [state.samplers[name].table[state.step] for state in states]
        after[name], clean[name] = _run(states, i, predictions[name], table, steps)
    rows = zip(states, _unbatch(after), _unbatch(clean), strict=True)
    return [
        ChunkState(
            seed=state.seed,
            stream=state.stream,
            chunk=state.chunk,
            step=state.step + 1,
            steps=state.steps,
            samplers=state.samplers,
            latents=x,
            x0=x0,
        )
        for state, x, x0 in rows
    ]


def end_chunk(state: ChunkState) -> ChunkState:
    """Ends a chunk after the steps it has had (at least one): its last x0 becomes the result."""
    assert state.x0 is not None, (state.stream, state.chunk, state.step)
    return replace(state, steps=state.step, latents=state.x0)


def commit_latents(
    states: Sequence[ChunkState], context_noise: float
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The input of the pass that writes finished chunks to the cache: (latents, times).

    latents: a(t) x0 + b(t) z at t = `context_noise` of each row's path, float32 [r, n, d]; times:
    what the network is told of t, float32 [r]. Each row must have had a step.
    """
    clean = [state.x0 for state in states if state.x0 is not None]
    assert len(clean) == len(states), [(s.stream, s.chunk, s.step) for s in states]
    latents, times = {}, {}
    for i, (name, x0) in enumerate(_batch(clean).items()):
        rows = [state.samplers[name] for state in states]
        table = [(0.0, 1.0, inf, 0.0, *row.path.scales(context_noise)) for row in rows]
        latents[name], _ = _run(states, i, x0, table, [COMMIT] * len(states))
        told = [row.network_time(context_noise) for row in rows]
        times[name] = place(torch.tensor(told, dtype=torch.float32), x0.device)
    return latents, times


def _run(
    states: Sequence[ChunkState],
    modality: int,
    prediction: Tensor,
    table: Coefficients,
    steps: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """One call of the kernel for all rows -> (next, clean), shape of `prediction`."""
    device, flat = prediction.device, prediction.flatten(1)
    keys = noise_keys(
        [state.seed for state in states],
        [state.stream for state in states],
        [state.chunk for state in states],
        modality,
        steps,
    )
    x = flat
    if any(row[0] or row[3] for row in table):
        name = list(states[0].latents)[modality]
        x = torch.stack([state.latents[name] for state in states]).flatten(1)
    coefficients = torch.from_numpy(np.array(table, dtype=np.float64).reshape(-1, 6))
    after, clean = consistency_step(x, flat, place(coefficients, device), place(keys, device))
    return after.view_as(prediction), clean.view_as(prediction)


def _initial(
    states: Sequence[ChunkState],
    index: int,
    modality: Modality,
    sources: Sequence[Tensor | None],
    device: Device,
) -> Tensor:
    """float32 [r, n, d]: a(t) source + b(t) z, or noise alone at the scale of the path."""
    nothing = torch.zeros(modality.tokens, modality.dim, device=device)
    clean = torch.stack([nothing if source is None else source for source in sources])
    table = []
    for state, source in zip(states, sources, strict=True):
        sampler = state.samplers[modality.name]
        t = sampler.times[0]
        a, b = sampler.path.scales(t)
        scales = (0.0, sampler.path.start_scale(t)) if source is None else (a, b)
        table.append((0.0, 1.0, inf, 0.0, *scales))
    return _run(states, index, clean, table, [INITIAL] * len(states))[0]


def _network_times(states: Sequence[ChunkState], ahead: int) -> dict[str, Tensor]:
    return {
        name: place(
            torch.tensor(
                [state.samplers[name].network_times[state.step + ahead] for state in states],
                dtype=torch.float32,
            ),
            x.device,
        )
        for name, x in states[0].latents.items()
    }


def _scaled(x: Tensor, scales: Sequence[float]) -> Tensor:
    if all(scale == 1.0 for scale in scales):
        return x
    return x * place(torch.tensor(scales, dtype=torch.float32), x.device)[:, None, None]


def _steps_of(samplers: Mapping[str, Sampler]) -> int:
    counts = {sampler.steps for sampler in samplers.values()}
    if len(counts) != 1:
        raise ValueError(f"steps is {sorted(counts)}; allowed: one number for all modalities")
    _check_steps(min(counts))
    return min(counts)


def _check_steps(steps: int) -> None:
    if not 1 <= steps < COMMIT:
        raise ValueError(f"steps is {steps}; allowed: 1 to {COMMIT - 1}")


def _batch(rows: Sequence[Latents]) -> dict[str, Tensor]:
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def _unbatch(batch: Latents) -> list[dict[str, Tensor]]:
    rows = zip(*(x.unbind(0) for x in batch.values()), strict=True)
    return [dict(zip(batch, row, strict=True)) for row in rows]
