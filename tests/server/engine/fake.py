"""A tiny deterministic model with a settable cost, and a clock that only moves when told to."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from onbeat.kernels.paged_attention import KVPages
from onbeat.models.spec import (
    CausalModel,
    DecodedChunks,
    EncodedPrompt,
    Latents,
    Modality,
    ModelSpec,
)

SPEC = ModelSpec(
    name="fake",
    modalities=(
        Modality(name="audio", tokens=2, dim=3, shift=1.5),
        Modality(name="video", tokens=4, dim=5, shift=3.0),
    ),
    width=16,
    height=16,
    fps=20,
    chunk_frames=4,
    sample_rate=48_000,
    layers=2,
    heads=2,
    head_dim=4,
    cond_dim=8,
    prefix_tokens=3,
    window_chunks=3,
    default_steps=2,
    first_chunk_steps=4,
    kept_chunks=1,
    takes_reference=True,
    max_steps=4,
    context_noise=0.02,
)


class FakeClock:
    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += seconds


class FakeModel:
    """Each row's prediction depends on its input, its prompt and the pages that it can see.

    `step_cost` maps rows to seconds that a forward moves `clock` by. Prompts: "raise" raises in the
    forward, "nan" makes latents that are not finite, "refuse" cannot be encoded.
    """

    spec = SPEC

    def __init__(
        self, clock: FakeClock | None = None, step_cost: Callable[[int], float] | None = None
    ) -> None:
        self.clock = clock
        self.step_cost = step_cost or (lambda rows: 0.004 + 0.002 * rows)
        self.batches: list[int] = []
        self.commits: list[int] = []
        self.prefills = 0
        self.prefill_cost = self.encode_cost = 0.0

    def encode_prompt(self, prompt: str) -> EncodedPrompt:
        if prompt == "refuse":
            raise ValueError("prompt: 'refuse' cannot be encoded")
        code = float(sum(prompt.encode()) % 97)
        if prompt == "raise":
            code = -1.0
        if prompt == "nan":
            code = float("nan")
        return EncodedPrompt(
            pooled=torch.full((SPEC.cond_dim,), code),
            slots=torch.full((SPEC.prefix_tokens, 8), code),
            recognised=tuple(w for w in prompt.split() if w in ("red", "blue", "ball")),
        )

    def prefill_prompt(self, prompts: Sequence[EncodedPrompt], kv: KVPages) -> None:
        self.prefills += len(prompts)
        if self.clock is not None:
            self.clock.advance(self.prefill_cost * len(prompts))
        for prompt, page in zip(prompts, kv.write_pages.tolist(), strict=True):
            kv.k[:, page] = prompt.slots.mean() / 97
            kv.v[:, page] = prompt.slots.mean() / 97

    def denoise(
        self, latents: Latents, times: Mapping[str, Tensor], pooled: Tensor, kv: KVPages
    ) -> dict[str, Tensor]:
        rows = pooled.shape[0]
        if (pooled < 0).any():
            raise RuntimeError("this prompt raises")
        self.batches.append(rows)
        self.commits.append(int((kv.write_pages >= 0).sum()))
        if self.clock is not None:
            self.clock.advance(self.step_cost(rows))
        out = {name: torch.empty_like(x) for name, x in latents.items()}
        for row, page in enumerate(kv.write_pages.tolist()):
            shift = pooled[row].mean() / 97 + self._seen(kv, row)
            for name, x in latents.items():
                out[name][row] = torch.tanh(0.5 * x[row] * times[name][row] + shift)
            if page >= 0:
                mean = torch.stack([x[row].mean() for x in out.values()]).sum()
                kv.k[:, page] = mean
                kv.v[:, page] = mean
        return out

    def _seen(self, kv: KVPages, row: int) -> Tensor:
        """Weighted by slot, so that a wrong page or a wrong order shows."""
        table = kv.page_table[row].tolist()
        values = [
            kv.k[0, p].mean() * (i + 1) if p >= 0 else torch.zeros(()) for i, p in enumerate(table)
        ]
        return torch.stack(values).sum() / 10

    def encode_media(self, frames: Tensor, sound: Tensor) -> dict[str, Tensor]:
        """Latents that tell the mean of the frames and of the sound; a white frame raises."""
        if frames.min() == 255:
            raise ValueError("reference: a white chunk")
        if self.clock is not None:
            self.clock.advance(self.encode_cost)
        level = {"video": frames.float().mean() / 255, "audio": sound[: SPEC.chunk_samples]}
        return {
            "audio": torch.full((2, 3), float(level["audio"].float().mean()) / 32_768),
            "video": torch.full((4, 5), float(level["video"])),
        }

    def new_decoder_state(self) -> Any:
        return {"chunks": 0}

    def skip_chunks(self, state: Any, chunks: int) -> None:
        state["chunks"] += chunks

    def decode(self, latents: Latents, states: Sequence[Any]) -> DecodedChunks:
        for state in states:
            state["chunks"] += 1
        level = latents["video"].mean(dim=(1, 2)).clamp(-1, 1) * 100 + 128
        shape = (len(states), SPEC.chunk_frames, SPEC.height, SPEC.width, 3)
        frames = level.to(torch.uint8)[:, None, None, None, None].expand(shape)
        audio = torch.zeros(len(states), SPEC.chunk_samples, dtype=torch.int16)
        return DecodedChunks(frames=frames.contiguous(), audio=audio)


class Timed:
    """Another model, whose forwards take `step_cost` seconds on the clock of a test."""

    def __init__(
        self, model: CausalModel, clock: FakeClock, step_cost: Callable[[int], float]
    ) -> None:
        self._model, self._clock, self._step_cost = model, clock, step_cost
        self.spec = model.spec
        self.encode_prompt = model.encode_prompt
        self.prefill_prompt = model.prefill_prompt
        self.encode_media = model.encode_media
        self.new_decoder_state = model.new_decoder_state
        self.skip_chunks = model.skip_chunks
        self.decode = model.decode

    def denoise(
        self, latents: Latents, times: Mapping[str, Tensor], pooled: Tensor, kv: KVPages
    ) -> dict[str, Tensor]:
        self._clock.advance(self._step_cost(pooled.shape[0]))
        return self._model.denoise(latents, times, pooled, kv)
