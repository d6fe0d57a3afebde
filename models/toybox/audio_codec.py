"""The streaming audio codec: sound to one latent per video frame, and back.

What it is: a small causal autoencoder around the tone and noise bank. One latent of 24 numbers per
50 ms; a decoder that keeps a few plain tensors per stream, so that there is no seam between chunks.
What it is not: training (samplers/distill), or a general purpose codec: it knows tones on the
semitone grid and soft noise.

Look-ahead: encoding sees 90 ms past a frame; decoding sees nothing of the future.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from onbeat.models.toybox import bank

FRAME_HOPS = 5
CHUNK_FRAMES = 4
CHUNK_SAMPLES = CHUNK_FRAMES * FRAME_HOPS * bank.OUT_HOP
LATENT_DIM = 24
FRAME_NUMBERS = FRAME_HOPS * bank.BANDS
_BOUND = 5.0
_CONTEXT = 2
_QUIET = -2.0


@dataclass(slots=True, kw_only=True)
class AudioState:
    """What the decoder remembers of one stream between chunks; plain tensors, picklable.

    `latents` [2, 24] the last frames, `levels` [112] of the last hop, `phases` int64 [96] in 2^-32
    turns, `hops` int64 [] decoded so far.
    """

    latents: Tensor
    levels: Tensor
    phases: Tensor
    hops: Tensor


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.outer(F.silu(self.inner(self.norm(x.float()))))
        return x + y


def sharpen(levels: Tensor) -> Tensor:
    """Levels [..., 112] with only the tones that are no weaker than their neighbours.

    Analysis never gives two adjacent semitones, so the weaker one is blur, and would beat.
    """
    tones = levels[..., : bank.TONES]
    highest = F.max_pool1d(tones.flatten(0, -2)[:, None], 3, 1, 1).view(tones.shape)
    return torch.cat([tones * (tones >= highest), levels[..., bank.TONES :]], -1)


class AudioCodec(nn.Module):
    """Latents have zero mean and unit variance over the training sounds and lie within +-5."""

    mean: Tensor
    std: Tensor

    def __init__(self, *, width: int = 384) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(FRAME_NUMBERS, width), _Residual(width), nn.Linear(width, LATENT_DIM)
        )
        last = nn.Linear(width, FRAME_NUMBERS)
        nn.init.constant_(last.bias, _QUIET)
        self.decoder = nn.Sequential(
            nn.Linear((_CONTEXT + 1) * LATENT_DIM, width), _Residual(width), last
        )
        self.register_buffer("mean", torch.zeros(LATENT_DIM))
        self.register_buffer("std", torch.ones(LATENT_DIM))

    @classmethod
    def load(cls, path: Path) -> "AudioCodec":
        """Reads a safetensors file of `train_audio_codec`; the codec is in evaluation mode."""
        weights = load_file(path)
        codec = cls(width=weights["encoder.0.weight"].shape[0])
        codec.load_state_dict(weights)
        return codec.eval().requires_grad_(False)

    def raw_latents(self, levels: Tensor) -> Tensor:
        """Levels of frames [..., 560] to latents before normalisation [..., 24]."""
        latents: Tensor = self.encoder(levels)
        return latents

    def normalise(self, raw: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """Latents of zero mean and unit variance, softly bounded; shape of `raw`."""
        return _BOUND * torch.tanh((raw - mean) / std / _BOUND)

    def logits(self, latents: Tensor) -> Tensor:
        """Latents [b, f, 24] from a stream's start to logits of levels [b, f, 560] (training)."""
        padded = F.pad(latents, (0, 0, _CONTEXT, 0))
        return self._window_logits(padded.unfold(1, _CONTEXT + 1, 1))

    def _window_logits(self, windows: Tensor) -> Tensor:
        """Latents of three frames each [..., 24, 3] to the last one's logits [..., 560]."""
        logits: Tensor = self.decoder(windows.mT.flatten(-2))
        return logits

    @torch.no_grad()
    def encode(self, wave: Tensor) -> Tensor:
        """Sound float32 [b, samples at 24 kHz] to latents [b, samples // 1200, 24].

        The last two frames of a cut sound are less exact, as they miss their look-ahead of 90 ms.
        """
        levels = bank.analyse(wave)
        frames = levels.shape[1] // FRAME_HOPS
        levels = levels[:, : frames * FRAME_HOPS].reshape(-1, frames, FRAME_NUMBERS)
        return self.normalise(self.raw_latents(levels), self.mean, self.std)

    def new_state(self) -> AudioState:
        """The state of a stream that starts in silence."""
        return AudioState(
            latents=torch.zeros(_CONTEXT, LATENT_DIM),
            levels=torch.zeros(bank.BANDS),
            phases=bank.first_phases(),
            hops=torch.zeros((), dtype=torch.int64),
        )

    def skip(self, state: AudioState, chunks: int) -> None:
        """Moves the clock and the tones' phases on as if so many chunks had been decoded."""
        hops = chunks * CHUNK_FRAMES * FRAME_HOPS
        state.phases = bank.advance_phases(state.phases, hops)
        state.hops = state.hops + hops

    @torch.no_grad()
    def decode(self, latents: Tensor, states: Sequence[AudioState]) -> Tensor:
        """Latents [b, 4 * n, 24] of n chunks to sound int16 [b, 9600 * n]; moves `states`.

        Works chunk by chunk and row by row in fixed shapes: the bits of a row depend neither on its
        batch mates nor on how its chunks are grouped into calls.
        """
        b, frames, _ = latents.shape
        if frames % CHUNK_FRAMES or len(states) != b:
            raise ValueError(f"latents: {tuple(latents.shape)} for {len(states)} states, not "
                             f"[states, a multiple of {CHUNK_FRAMES}, {LATENT_DIM}]")  # fmt: skip
        rows = []
        for row, state in zip(latents, states, strict=True):
            rows.append(
                torch.cat([self._decode_chunk(c, state) for c in torch.split(row, CHUNK_FRAMES)])
            )
        return torch.stack(rows)

    def _decode_chunk(self, latents: Tensor, state: AudioState) -> Tensor:
        """One chunk of one stream: [4, 24] -> int16 [9600]."""
        known = torch.cat([state.latents, latents])
        logits = self._window_logits(known.unfold(0, _CONTEXT + 1, 1))
        levels = sharpen(logits.sigmoid().view(-1, bank.BANDS))
        wave = bank.synthesise(levels, state.levels, state.phases, int(state.hops))
        hops = levels.shape[0]
        state.latents, state.levels = known[-_CONTEXT:].clone(), levels[-1].clone()
        state.phases = bank.advance_phases(state.phases, hops)
        state.hops = state.hops + hops
        return (wave.clamp(-1, 1) * 32_767).round().to(torch.int16)
