"""Where objects are in a latent frame, by a small frozen net, and its short training.

What it is: latents to the share of each cell of a grid that objects cover (the renderer's masks are
the labels), and place and size from that. What it is not: a judge of results (the detector reads
pixels by rules), or the loss (motion_loss.py).
"""

import json
import time
from pathlib import Path
from typing import NamedTuple

import torch
from rich.progress import track
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.concepts import CHUNK_FRAMES
from onbeat.models.toybox.render import render
from onbeat.models.toybox.scenes import sample_scenes
from onbeat.models.toybox.video_codec import LATENT_CHANNELS, VideoCodec

WIDTH = 48
GRID = 16
CLIPS, UNSEEN_CLIPS, AT_ONCE = 2_000, 160, 16
BATCH, STEPS = 192, 600
RATE = 3e-3
MOST_NOISE = 0.6
LEAST_COVER = 1e-3


class Place(NamedTuple):
    """Of frames [r]: centre of all that objects cover [r, 2] (x, y), in frame sides, and the
    square root of the share of the frame that they cover [r]."""

    centre: Tensor
    size: Tensor


class CoverNet(nn.Module):
    """Three 3x3 convolutions: a latent frame to logits of the cover of GRID x GRID cells."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(LATENT_CHANNELS, WIDTH, 3, padding=1)
        self.second = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.last = nn.Conv2d(WIDTH, 4, 3, padding=1)

    def forward(self, latents: Tensor) -> Tensor:
        """[r, 16, 8, 8] -> float32 [r, GRID, GRID]."""
        x = F.gelu(self.first(latents))
        x = x + F.gelu(self.second(x))
        return F.pixel_shuffle(self.last(x), 2).squeeze(1).float()

    def place(self, latents: Tensor) -> Place:
        return place_of(self(latents).sigmoid())


def place_of(cover: Tensor) -> Place:
    """Of shares [r, GRID, GRID] in 0..1; where nothing is, the middle of the frame."""
    axis = (torch.arange(GRID) + 0.5) / GRID
    total = cover.sum((1, 2)) + LEAST_COVER
    empty = 0.5 * LEAST_COVER
    x = ((cover.sum(1) * axis).sum(1) + empty) / total
    y = ((cover.sum(2) * axis).sum(1) + empty) / total
    return Place(torch.stack([x, y], dim=1), (total / GRID**2).sqrt())


@torch.no_grad()
def covered_latents(codec: VideoCodec, seed: int, clips: int) -> tuple[Tensor, Tensor]:
    """A chunk of each of `clips` scenes: latents [c, 4, 16, 8, 8], cover [c, 4, GRID, GRID]."""
    latents, covers = [], []
    for at in track(range(0, clips, AT_ONCE), description="scenes"):
        scenes = sample_scenes(seed + at, AT_ONCE, 2, change_probability=0.0)
        pixels, mask = render(scenes, 0, CHUNK_FRAMES)
        frames = pixels.permute(0, 1, 4, 2, 3).float().div_(127.5).sub_(1.0)
        with torch.autocast("cpu", torch.bfloat16):
            latents += [codec.encode(f[None])[0].float() for f in frames]
        covers.append(F.adaptive_avg_pool2d(mask, GRID))
    return torch.stack(latents), torch.cat(covers)


def train_cover(
    codecs: tuple[VideoCodec, AudioCodec], out: Path, seed: int, steps: int = STEPS
) -> float:
    """Writes model.safetensors and log.jsonl to `out`; returns the mean error of the centre on
    unseen scenes, in pixels."""
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    torch.manual_seed(seed)
    net = CoverNet()
    latents, cover = (x.flatten(0, 1) for x in covered_latents(codecs[0], 3 << 30, CLIPS))
    optimizer = torch.optim.AdamW(net.parameters(), RATE)
    generator = torch.Generator().manual_seed(seed)
    for step in track(range(steps), description="cover"):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, 1.4 * (steps - step) / steps)
        rows = torch.randint(len(latents), (BATCH,), generator=generator)
        t = MOST_NOISE * torch.rand(BATCH, 1, 1, 1, generator=generator).square()
        noise = torch.randn(BATCH, *latents.shape[1:], generator=generator)
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(torch.lerp(latents[rows], noise, t))
        loss = F.binary_cross_entropy_with_logits(logits, cover[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    error = centre_error(net, *covered_latents(codecs[0], (3 << 30) + CLIPS, UNSEEN_CLIPS))
    save_file(net.state_dict(), out / "model.safetensors")
    line = {"step": steps, "seconds": round(time.monotonic() - began, 1), "error_px": error}
    (out / "log.jsonl").write_text(json.dumps(line) + "\n")
    return error


@torch.no_grad()
def centre_error(net: CoverNet, latents: Tensor, cover: Tensor) -> float:
    """Mean distance of the centre read from `latents` to that of the true cover, in pixels."""
    got, want = net.place(latents.flatten(0, 1)), place_of(cover.flatten(0, 1))
    return float((got.centre - want.centre).square().sum(1).sqrt().mean()) * 128.0


def load_cover(path: Path) -> CoverNet:
    """A trained net, frozen. Raises FileNotFoundError if there is none."""
    net = CoverNet()
    net.load_state_dict(load_file(path))
    return net.eval().requires_grad_(False)
