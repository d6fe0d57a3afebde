"""The sampler against its own promises: ragged, resumable, exact at the end, and right.

The denoiser of these tests is the exact posterior mean of a Gaussian, row by row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import diffusers
import pytest
import torch
from torch import Tensor

from onbeat.samplers.consistency import (
    commit_latents,
    end_chunk,
    init_chunk,
    init_rows,
    latents_of,
    step_rows,
    times_of,
)
from onbeat.samplers.noise import COMMIT, INITIAL, draw, noise_keys
from onbeat.samplers.state import ChunkState


@dataclass(frozen=True)
class Tokens:
    name: str
    tokens: int
    dim: int
    shift: float


MODALITIES = (Tokens("audio", 4, 6, 1.5), Tokens("video", 8, 12, 3.0))
MEAN, STD = 0.5, 0.25


def posterior_mean(x: Tensor, t: Tensor) -> Tensor:
    """E[x0 | x_t] for x0 ~ N(MEAN, STD^2), x_t = (1 - t) x0 + t z."""
    t = t[:, None, None]
    gain = (1 - t) * STD**2 / (((1 - t) * STD) ** 2 + t**2)
    return MEAN + gain * (x - (1 - t) * MEAN)


def predict(states: Sequence[ChunkState]) -> dict[str, Tensor]:
    times = times_of(states)
    return {name: posterior_mean(x, times[name]) for name, x in latents_of(states).items()}


def step(states: Sequence[ChunkState]) -> list[ChunkState]:
    return step_rows(states, predict(states))


def ragged() -> list[ChunkState]:
    """Rows at different steps of different budgets, seeds, streams and chunks."""
    rows = init_rows(
        MODALITIES, [5, 5, 9, 9, 1, 2], [0, 1, 1, 2, 3, 4], range(6), [4, 4, 2, 1, 3, 2]
    )
    rows[1:3] = step(rows[1:3])
    rows[4:5] = step(step(rows[4:5]))
    return rows


def same(a: ChunkState, b: ChunkState) -> bool:
    numbers = ("seed", "stream", "chunk", "step", "steps", "samplers")
    if any(getattr(a, name) != getattr(b, name) for name in numbers) or (a.x0 is None) != (
        b.x0 is None
    ):
        return False
    pairs = [(a.latents, b.latents), (a.x0 or {}, b.x0 or {})]
    return all(torch.equal(x[name], y[name]) for x, y in pairs for name in x)


def test_a_chunk_starts_from_its_own_noise() -> None:
    state = init_chunk(MODALITIES, 7, 3, 11, 2)
    assert list(state.latents) == ["audio", "video"]
    for i, m in enumerate(MODALITIES):
        expected = draw(noise_keys([7], [3], [11], i, [INITIAL]), (m.tokens, m.dim))[0]
        assert torch.equal(state.latents[m.name], expected)
    assert all(times.tolist() == [1.0] for times in times_of([state]).values())


def test_batched_start_equals_single_starts() -> None:
    rows = init_rows(MODALITIES, [1, 2], [3, 4], [5, 6], [2, 4])
    assert same(rows[0], init_chunk(MODALITIES, 1, 3, 5, 2))
    assert same(rows[1], init_chunk(MODALITIES, 2, 4, 6, 4))


def test_each_row_has_its_own_time_per_modality() -> None:
    times = times_of(ragged())
    assert times["video"].tolist() == pytest.approx([1.0, 0.9, 0.75, 1.0, 0.6, 1.0])
    assert times["audio"].tolist() == pytest.approx([1.0, 0.8182, 0.6, 1.0, 0.4286, 1.0], abs=1e-4)


def test_ragged_rows_equal_single_calls_bit_for_bit() -> None:
    states = ragged()
    alone = [step([state])[0] for state in states]
    make = torch.Generator().manual_seed(0)
    for size in (1, 2, 3, 4, 5, 6, 6):
        rows = torch.randperm(6, generator=make)[:size].tolist()
        for row, after in zip(rows, step([states[row] for row in rows]), strict=True):
            assert same(after, alone[row])


def test_a_step_is_pure_and_can_be_repeated() -> None:
    states = ragged()
    before = [state.to_bytes() for state in states]
    first, second = step(states), step(states)
    assert [state.to_bytes() for state in states] == before
    assert all(same(a, b) for a, b in zip(first, second, strict=True))


def test_the_last_step_returns_x0_exactly() -> None:
    state = init_chunk(MODALITIES, 1, 2, 3, 2)
    while not state.done:
        prediction = predict([state])
        state = step_rows([state], prediction)[0]
    for name, x in state.latents.items():
        assert torch.equal(x, prediction[name][0])
    with pytest.raises(AssertionError):
        step_rows([state], prediction)


def test_resume_from_bytes_after_every_step() -> None:
    state = straight = init_chunk(MODALITIES, 1, 2, 3, 4)
    while not straight.done:
        straight = step([straight])[0]
        state = step([ChunkState.from_bytes(state.to_bytes())])[0]
        assert same(state, straight)


def test_order_of_predictions_does_not_matter() -> None:
    states = ragged()
    predictions = predict(states)
    turned = dict(reversed(predictions.items()))
    pairs = zip(step_rows(states, predictions), step_rows(states, turned), strict=True)
    assert all(same(a, b) for a, b in pairs)


def test_a_chunk_can_end_after_any_step() -> None:
    state = step([init_chunk(MODALITIES, 1, 2, 3, 4)])[0]
    ended = end_chunk(state)
    assert ended.done and ended.x0 is not None
    assert all(torch.equal(ended.latents[name], x) for name, x in ended.x0.items())
    with pytest.raises(AssertionError):
        end_chunk(init_chunk(MODALITIES, 1, 2, 3, 4))


def test_commit_adds_context_noise_of_its_own() -> None:
    states = [end_chunk(state) for state in step(ragged())]
    latents, times = commit_latents(states, 0.02)
    for i, (name, x) in enumerate(latents.items()):
        x0 = torch.stack([state.x0[name] for state in states if state.x0])
        keys = [(state.seed, state.stream, state.chunk) for state in states]
        seeds, streams, chunks = zip(*keys, strict=True)
        z = draw(noise_keys(seeds, streams, chunks, i, [COMMIT] * 6), x0.shape[1:])
        assert torch.allclose(x, 0.98 * x0 + 0.02 * z, atol=1e-6)
        assert times[name].tolist() == pytest.approx([0.02] * 6)
    clean, _ = commit_latents(states, 0.0)
    assert torch.equal(clean["video"][3], states[3].latents["video"])


def test_samples_follow_the_distribution() -> None:
    """With the exact posterior mean of data of zero width, every chunk lands on the data."""
    wide = (Tokens("video", 50, 100, 3.0),)
    state = init_chunk(wide, 1, 2, 3, 4)
    levels = []
    while not state.done:
        x, t = state.latents["video"], times_of([state])["video"].item()
        levels.append((x.mean().item() - (1 - t) * MEAN, x.std().item() / t))
        constant = torch.full_like(x, MEAN)[None]
        state = step_rows([state], {"video": constant})[0]
    assert all(abs(mean) < 0.05 and abs(std - 1) < 0.05 for mean, std in levels)
    assert torch.equal(state.latents["video"], constant[0])


def test_agrees_with_diffusers_given_explicit_sigmas_and_our_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = init_chunk(MODALITIES[1:], 1, 2, 3, 4)
    scheduler: Any = diffusers.FlowMatchLCMScheduler
    theirs = scheduler(shift=3.0)
    theirs.set_timesteps(sigmas=[1.0, 0.75, 0.5, 0.25])
    sample = state.latents["video"][None]
    for t in theirs.timesteps:
        keys = noise_keys([1], [2], [3], 0, [state.step + 1])
        noise = draw(keys, sample.shape[1:])
        patch = "diffusers.schedulers.scheduling_flow_match_lcm.randn_tensor"
        monkeypatch.setattr(patch, lambda *_, z=noise, **__: z)
        x0 = predict([state])["video"]
        velocity = (state.latents["video"][None] - x0) / times_of([state])["video"]
        sample = theirs.step(velocity, t, sample).prev_sample
        state = step_rows([state], {"video": x0})[0]
        assert torch.allclose(sample[0], state.latents["video"], atol=2e-6)


def test_steps_are_checked() -> None:
    with pytest.raises(ValueError, match="steps is 0; allowed: 1 to"):
        init_chunk(MODALITIES, 1, 2, 3, 0)
    assert replace(init_chunk(MODALITIES, 1, 2, 3, 1), step=1).done
