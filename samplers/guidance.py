"""Classifier-free guidance over ragged rows: which rows ask for it, and the blend of predictions.

Two ways, by the row's sampler: the network was distilled with the scale as an input ("embedded"),
or each row is evaluated a second time without its prompt ("rows") and the two predictions are
blended. Rows with and without guidance, at any scale, share a batch. Nothing here calls a network.
Source: Ho and Salimans, Classifier-Free Diffusion Guidance (2022), eq. 6.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from onbeat.samplers.state import ChunkState

Latents = Mapping[str, Tensor]


def embedded_scales(states: Sequence[ChunkState]) -> dict[str, Tensor]:
    """What a network with an embedded scale is told: per modality float32 [r], 1 for other rows.

    LCM's own networks are told this number less 1.
    """
    return {
        name: torch.tensor(
            [_scale(s, name, "embedded") for s in states], dtype=torch.float32, device=x.device
        )
        for name, x in states[0].latents.items()
    }


def guided_rows(states: Sequence[ChunkState]) -> list[int]:
    """Positions of the rows that need a second evaluation, without their prompt."""
    return [
        i
        for i, state in enumerate(states)
        if any(_scale(state, name, "rows") != 1.0 for name in state.samplers)
    ]


def with_unprompted(states: Sequence[ChunkState]) -> list[ChunkState]:
    """The rows of the forward: all states, then those of `guided_rows` once more."""
    return [*states, *(states[i] for i in guided_rows(states))]


def guide(states: Sequence[ChunkState], predictions: Latents) -> dict[str, Tensor]:
    """Predictions for the rows of `with_unprompted` -> for `states`, float32 [r, n, d]: guided rows
    get u + scale (p - u), p with and u without the prompt; the others are returned as they are."""
    guided, count = guided_rows(states), len(states)
    expected = count + len(guided)
    out = {}
    for name, both in predictions.items():
        if both.shape[0] != expected:
            raise ValueError(f"{name} has {both.shape[0]} rows; allowed: {expected}")
        blended = both[:count].clone()
        scales = [_scale(states[i], name, "rows") for i in guided]
        scale = torch.tensor(scales, dtype=torch.float32, device=both.device)[:, None, None]
        away = both[count:]
        blended[guided] = away + scale * (both[guided] - away)
        out[name] = blended
    return out


def _scale(state: ChunkState, name: str, kind: str) -> float:
    guidance = state.samplers[name].guidance
    return guidance.scale if guidance.kind == kind else 1.0
