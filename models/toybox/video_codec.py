"""The video autoencoder of toybox: each 128x128 frame is one 16x8x8 latent.

What it is: a small convolutional encoder and decoder per frame (trials showed that stacking frames
in one latent makes them alike), latents normalised per channel by stored statistics, and the
packing of four frames' latents into a chunk's tokens. What it is not: its training.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LATENT_CHANNELS = 16
LATENT_SIDE = 8
PATCH = 2
TOKENS = (LATENT_SIDE // PATCH) ** 2
CLIP_FRAMES = 4
LATENT_LIMIT = 5.0
"""Latents are clamped to this many standard deviations before decoding."""


@dataclass(slots=True, kw_only=True)
class VideoDecoderState:
    """What one stream's decoder carries from chunk to chunk: only the count of its frames."""

    frames: int = 0


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(F.relu(self.first(F.relu(x))))
        return x + y


def _down(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(4 * inside, outside, 1))


def _up(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inside, 4 * outside, 1), nn.PixelShuffle(2))


def _encoder() -> nn.Sequential:
    return nn.Sequential(
        nn.PixelUnshuffle(4),
        nn.Conv2d(48, 32, 3, padding=1),
        _Residual(32),
        _down(32, 64),
        _Residual(64),
        _down(64, 128),
        _Residual(128),
        _Residual(128),
        nn.ReLU(),
        nn.Conv2d(128, LATENT_CHANNELS, 3, padding=1),
    )


def _decoder() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(LATENT_CHANNELS, 112, 3, padding=1),
        _Residual(112),
        _Residual(112),
        _up(112, 48),
        _Residual(48),
        _up(48, 32),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 48, 3, padding=1),
        nn.PixelShuffle(4),
    )


class VideoCodec(nn.Module):
    """Frames <-> latents. Frames are float RGB in -1..1; latents have unit variance per channel
    once `latent_mean` and `latent_std` hold the statistics of what the encoder puts out."""

    latent_mean: Tensor
    latent_std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.encoder = _encoder()
        self.decoder = _decoder()
        self.register_buffer("latent_mean", torch.zeros(LATENT_CHANNELS))
        self.register_buffer("latent_std", torch.ones(LATENT_CHANNELS))

    def encode(self, frames: Tensor) -> Tensor:
        """[b, f, 3, 128, 128] -> normalised latents [b, f, 16, 8, 8] float32, in the encoder's own
        precision."""
        x = frames.flatten(0, 1)
        weight = next(self.encoder.parameters())
        if weight.dtype != x.dtype:
            x = x.to(weight.dtype, memory_format=torch.channels_last)
        raw = self.encoder(x).float()
        z: Tensor = (raw - self.latent_mean.view(-1, 1, 1)) / self.latent_std.view(-1, 1, 1)
        return z.view(*frames.shape[:2], *z.shape[1:])

    def new_state(self) -> VideoDecoderState:
        return VideoDecoderState()

    def skip(self, state: VideoDecoderState, frames: int) -> None:
        """Moves `state` on as if so many frames had been decoded."""
        state.frames += frames

    def decode(self, latents: Tensor, state: VideoDecoderState) -> Tensor:
        """Normalised latents [b, f, 16, 8, 8] -> float32 frames in -1..1 [b, f, 3, 128, 128].

        Runs in the decoder's own precision, CLIP_FRAMES frames of one clip at a time: the bits of a
        frame depend neither on its batch mates nor on how the stream is cut into chunks.
        """
        state.frames += latents.shape[1]
        z = latents.clamp(-LATENT_LIMIT, LATENT_LIMIT).flatten(0, 1)
        weight = next(self.decoder.parameters())
        z = z.to(weight.dtype, memory_format=torch.channels_last)
        parts = torch.split(z, CLIP_FRAMES)
        frames = torch.cat([self.decoder(part).float() for part in parts]).clamp(-1, 1)
        return frames.view(*latents.shape[:2], *frames.shape[1:])


def prepare_to_serve(codec: VideoCodec) -> VideoCodec:
    """Puts both halves in bfloat16 with channels last, the fastest form on one CPU thread."""
    for half in (codec.encoder, codec.decoder):
        half.to(torch.bfloat16, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return codec.eval()


def pack(latents: Tensor) -> Tensor:
    """Latents of a chunk [b, 4, 16, 8, 8] -> tokens [b, 16, 256]: 2x2 patches in row order; a
    token holds (frame, channel, row, column) of its patch."""
    b, f, c, h, w = latents.shape
    grid = latents.view(b, f, c, h // PATCH, PATCH, w // PATCH, PATCH)
    return grid.permute(0, 3, 5, 1, 2, 4, 6).reshape(b, TOKENS, f * c * PATCH * PATCH)


def unpack(tokens: Tensor) -> Tensor:
    """The inverse of `pack`: [b, 16, 256] -> [b, 4, 16, 8, 8]."""
    side, c = LATENT_SIDE // PATCH, LATENT_CHANNELS
    grid = tokens.view(tokens.shape[0], side, side, -1, c, PATCH, PATCH)
    return grid.permute(0, 3, 4, 1, 5, 2, 6).reshape(tokens.shape[0], -1, c, side * 2, side * 2)
