"""The ragged step on rows that stay together: states as arrays, one call for all of them.

The same bits as `onbeat.samplers.consistency.step_rows`, without its cost per row: for callers that
take the same rows through several steps (offline generation, training rollouts). Rows may be at
different steps of different samplers; a row that is done stays as it is. Plain data, not a
scheduler.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onbeat.kernels._dispatch import place
from onbeat.kernels.consistency_step import COLUMNS, consistency_step
from onbeat.samplers.noise import noise_keys, renoise_step
from onbeat.samplers.state import ChunkState

_HOLD = (1.0, 0.0, inf, 0.0, 1.0, 0.0)
"""Coefficients of a row that is done: x stays as it is, whatever is predicted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """`states` as they were packed, and what changes by a step.

    steps: int64 [r], evaluations done. tables: per modality float64 [r, most steps + 1, 6], with
    `_HOLD` past a row's end. keys: per modality int64 [r, 6], the step column aside. latents, x0:
    per modality float32 [r, n, d]; x0 is None before the first step.
    """

    states: tuple[ChunkState, ...]
    steps: NDArray[np.int64]
    totals: NDArray[np.int64]
    tables: Mapping[str, NDArray[np.float64]]
    keys: Mapping[str, NDArray[np.int64]]
    latents: Mapping[str, Tensor]
    x0: Mapping[str, Tensor] | None

    @property
    def done(self) -> bool:
        """True if no row has a step left."""
        return bool((self.steps >= self.totals).all())


def pack(states: Sequence[ChunkState]) -> Batch:
    """States as a batch; at least one. Rows that have had a step keep their x0, others have zeros
    for it until they have."""
    names, most = list(states[0].latents), max(state.steps for state in states)
    steps = [state.step for state in states]
    clean = {
        name: torch.stack(
            [torch.zeros_like(s.latents[name]) if s.x0 is None else s.x0[name] for s in states]
        )
        for name in names
    }
    return Batch(
        states=tuple(states),
        steps=np.array(steps, dtype=np.int64),
        totals=np.array([state.steps for state in states], dtype=np.int64),
        tables={name: _tables(states, name, most) for name in names},
        keys={n: _keys(states, i) for i, n in enumerate(names)},
        latents={name: torch.stack([s.latents[name] for s in states]) for name in names},
        x0=None if all(state.x0 is None for state in states) else clean,
    )


def unpack(batch: Batch) -> list[ChunkState]:
    """The rows as states, as `step_rows` would have given them."""
    latents, clean = batch.latents, batch.x0
    out = []
    for i, (state, step) in enumerate(zip(batch.states, batch.steps.tolist(), strict=True)):
        x = {name: rows[i] for name, rows in latents.items()}
        begun = clean is not None and (step > state.step or state.x0 is not None)
        x0 = {name: rows[i] for name, rows in clean.items()} if clean and begun else None
        out.append(replace(state, step=step, latents=x, x0=x0))
    return out


def batch_step(batch: Batch, predictions: Mapping[str, Tensor]) -> Batch:
    """One step of every row that has one left, given the network's output for all rows (float32
    [r, n, d]; of rows that are done it is not used). The batch passed in does not change."""
    rows, after, clean = np.arange(len(batch.steps)), {}, {}
    for name, x in batch.latents.items():
        keys = batch.keys[name].copy()
        keys[:, 4] = renoise_step(0) + batch.steps
        table = torch.from_numpy(batch.tables[name][rows, batch.steps])
        next_x, next_x0 = consistency_step(
            x.flatten(1),
            predictions[name].flatten(1),
            place(table, x.device),
            place(torch.from_numpy(keys), x.device),
        )
        after[name], clean[name] = next_x.view(x.shape), next_x0.view(x.shape)
    return Batch(
        states=batch.states,
        steps=np.minimum(batch.steps + 1, batch.totals),
        totals=batch.totals,
        tables=batch.tables,
        keys=batch.keys,
        latents=after,
        x0=clean,
    )


def _keys(states: Sequence[ChunkState], modality: int) -> NDArray[np.int64]:
    seeds, streams = [s.seed for s in states], [s.stream for s in states]
    chunks, steps = [s.chunk for s in states], [s.step for s in states]
    keys: NDArray[np.int64] = noise_keys(seeds, streams, chunks, modality, steps).numpy()
    return keys


def _tables(states: Sequence[ChunkState], name: str, most: int) -> NDArray[np.float64]:
    """float64 [r, most + 1, 6]."""
    rows = [(*s.samplers[name].table[: s.steps], *[_HOLD] * (most + 1 - s.steps)) for s in states]
    flat = np.array(list(chain.from_iterable(rows)), dtype=np.float64)
    return flat.reshape(len(states), most + 1, len(COLUMNS))
