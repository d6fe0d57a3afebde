"""The numbers of the toybox model.

What it is: the sizes of the denoiser and of its clocks, and the `ModelSpec` derived from them. What
it is not: training settings (samplers/distill) or the sizes of the codecs, which own theirs.
"""

import json
from dataclasses import asdict, dataclass

from onbeat.models.spec import Modality, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyboxConfig:
    """Sizes of the denoiser. A chunk holds its audio tokens first, then its video tokens."""

    width: int = 192
    layers: int = 8
    heads: int = 6
    mlp_ratio: int = 4
    condition_rank: int = 96
    word_dim: int = 48
    trigram_buckets: int = 1024
    text_slots: int = 16
    registers: int = 4
    window_chunks: int = 12
    chunk_frames: int = 4
    audio_dim: int = 24
    video_grid: int = 4
    video_dim: int = 256

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def audio_tokens(self) -> int:
        """One audio token per picture frame."""
        return self.chunk_frames

    @property
    def video_tokens(self) -> int:
        """One video token per cell of the token grid; it carries all frames of the chunk."""
        return self.video_grid**2

    @property
    def chunk_tokens(self) -> int:
        return self.audio_tokens + self.video_tokens

    @property
    def prefix_tokens(self) -> int:
        return self.text_slots + self.registers

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "ToyboxConfig":
        """Raises TypeError for unknown keys, so that a file of a newer layout is refused."""
        return cls(**json.loads(text))

    def spec(self) -> ModelSpec:
        return ModelSpec(
            name="toybox",
            modalities=(
                Modality(name="audio", tokens=self.audio_tokens, dim=self.audio_dim, shift=1.5),
                Modality(name="video", tokens=self.video_tokens, dim=self.video_dim, shift=3.0),
            ),
            width=128,
            height=128,
            fps=20,
            chunk_frames=self.chunk_frames,
            sample_rate=48_000,
            layers=self.layers,
            heads=self.heads,
            head_dim=self.head_dim,
            cond_dim=self.width,
            prefix_tokens=self.prefix_tokens,
            window_chunks=self.window_chunks,
            default_steps=2,
            first_chunk_steps=4,
            kept_chunks=0,
            takes_reference=True,
            max_steps=4,
            context_noise=0.02,
        )
