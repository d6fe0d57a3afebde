"""`mirror`: shows what its camera sees and says what it hears. No weights, nothing is learnt.

What it is: a model in all that the engine asks of one (noise, steps, commits, pages, encoder and
decoder), so that cameras, connections and the latency of the whole way can be tested and measured
by themselves. Its latents are the pixels and samples; a prediction is its input scaled to the level
that it is told, so that noise stays in it as grain: none to see at its own strength, and more with
more. Without an input it is grey and silent, whatever the prompt. What it is not: a generator.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from onbeat.kernels.paged_attention import KVPages
from onbeat.models.spec import DecodedChunks, EncodedPrompt, Latents, Modality, ModelSpec

SIDE, FRAMES, FPS, RATE = 128, 4, 20, 48_000
SAMPLES = RATE * FRAMES // FPS
TOKENS = 64
STRENGTH = 0.004
"""Noise of 0.4 % of the range, a part of one of 255 levels."""
MOST_NOISE = 0.9
"""Above this level nothing is left of an input."""
PREFIX = 1

SPEC = ModelSpec(
    name="mirror",
    modalities=(
        Modality(name="audio", tokens=FRAMES, dim=SAMPLES // FRAMES, shift=1.0),
        Modality(name="video", tokens=TOKENS, dim=FRAMES * SIDE * SIDE * 3 // TOKENS, shift=1.0),
    ),
    width=SIDE,
    height=SIDE,
    fps=FPS,
    chunk_frames=FRAMES,
    sample_rate=RATE,
    layers=1,
    heads=1,
    head_dim=4,
    cond_dim=1,
    prefix_tokens=PREFIX,
    window_chunks=1,
    default_steps=1,
    first_chunk_steps=1,
    max_steps=4,
    kept_chunks=0,
    takes_reference=True,
    default_strength=STRENGTH,
    context_noise=0.0,
)


class Mirror:
    """See `CausalModel`; every call is exact, row by row."""

    spec = SPEC

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._device = device

    def encode_prompt(self, prompt: str) -> EncodedPrompt:
        """It understands none."""
        nothing = torch.zeros(PREFIX, 1, device=self._device)
        return EncodedPrompt(pooled=nothing[0], slots=nothing, recognised=())

    def prefill_prompt(self, prompts: Sequence[EncodedPrompt], kv: KVPages) -> None:
        """Prompts leave no keys; no row reads any."""

    def denoise(
        self, latents: Latents, times: Mapping[str, Tensor], pooled: Tensor, kv: KVPages
    ) -> dict[str, Tensor]:
        """x / (1 - t), or nothing above `MOST_NOISE`."""
        out = {}
        for name, x in latents.items():
            t = times[name][:, None, None]
            out[name] = torch.where(t > MOST_NOISE, 0.0, x / (1.0 - t.clamp(max=MOST_NOISE)))
        return out

    def encode_media(self, frames: Tensor, sound: Tensor) -> dict[str, Tensor]:
        """See `CausalModel.encode_media`."""
        audio, video = SPEC.modalities
        pixels = frames.to(self._device).float() / 127.5 - 1.0
        samples = sound[:SAMPLES].to(self._device).float() / 32_768
        return {
            "audio": samples.view(audio.tokens, audio.dim),
            "video": pixels.view(video.tokens, video.dim),
        }

    def new_decoder_state(self) -> Any:
        """Nothing is carried from chunk to chunk."""
        return None

    def skip_chunks(self, state: Any, chunks: int) -> None:
        """There is no state."""

    def decode(self, latents: Latents, states: Sequence[Any]) -> DecodedChunks:
        """The pixels and samples as they are."""
        rows = len(states)
        pixels = latents["video"].clamp(-1, 1).add(1).mul(127.5).round().to(torch.uint8)
        samples = latents["audio"].clamp(-1, 1).mul(32_767).round().to(torch.int16)
        return DecodedChunks(
            frames=pixels.view(rows, FRAMES, SIDE, SIDE, 3), audio=samples.view(rows, -1).cpu()
        )


def load_mirror(*, weights: Path | None = None, device: str = "cpu") -> Mirror:
    """Raises ValueError for a weights file: there is none to read."""
    if weights is not None:
        raise ValueError(f"weights is {str(weights)!r}; allowed: none, as mirror has no weights")
    return Mirror(device)
