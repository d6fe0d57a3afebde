"""Training of the attribute net on latents of rendered scenes, whose labels are free.

What it is: a short seeded run (two minutes on two cores) that ends with the net's own error on
scenes never seen. What it is not: resumable; it is shorter than what a checkpoint would save.
"""

import json
import time
from pathlib import Path

import torch
from rich.progress import track
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from onbeat.models.toybox.attributes import UNKNOWN, AttributeNet
from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.samplers.distill.data import ClipPool, Cut

CUT = Cut(chunks=2, lead=1, tail=2, change_probability=0.0, one_object=1.0)
CLIPS, UNSEEN_CLIPS, AT_ONCE = 3_200, 640, 16
BATCH, STEPS = 256, 700
RATE, DECAY = 2e-3, 1e-2
MOST_NOISE = 0.6
"""Latents are seen with noise of up to this time, mostly less, as predictions are not clean."""
NAMES = ("shape", "colour", "background")

Latents = tuple[Tensor, Tensor]
"""Frames [c, f, 16, 8, 8] and labels [c, 3]."""


def latents_of_scenes(codecs: tuple[VideoCodec, AudioCodec], seed: int, clips: int) -> Latents:
    pool = ClipPool(ToyboxConfig(), codecs, CUT, seed, clips)
    for _ in track(range(-(-clips // AT_ONCE)), description="scenes"):
        pool.add(AT_ONCE)
    return pool.frames_and_labels()


def batch_of(data: Latents, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random frames [count, 16, 8, 8] and their labels [count, 3]."""
    frames, labels = data
    clip = torch.randint(len(frames), (count,), generator=generator)
    at = torch.randint(frames.shape[1], (count,), generator=generator)
    return frames[clip, at].float(), labels[clip]


def attribute_error(logits: tuple[Tensor, ...], labels: Tensor) -> Tensor:
    """Sum over the attributes of the mean cross-entropy where they are named."""
    errors = [
        F.cross_entropy(got, want, ignore_index=UNKNOWN, reduction="sum")
        / (want != UNKNOWN).sum().clamp(min=1)
        for got, want in zip(logits, labels.unbind(1), strict=True)
    ]
    return torch.stack(errors).sum()


@torch.no_grad()
def accuracy(net: AttributeNet, data: Latents, count: int = 1024) -> dict[str, float]:
    """Share of right answers by attribute on frames without noise."""
    frames, labels = batch_of(data, count, torch.Generator().manual_seed(0))
    shares = {}
    for name, got, want in zip(NAMES, net(frames), labels.unbind(1), strict=True):
        known = want != UNKNOWN
        shares[name] = float((got.argmax(1) == want)[known].float().mean())
    return shares


def train_attributes(
    codecs: tuple[VideoCodec, AudioCodec], out: Path, seed: int, steps: int = STEPS
) -> dict[str, float]:
    """Writes model.safetensors and log.jsonl to `out`; returns the accuracy on unseen scenes."""
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    torch.manual_seed(seed)
    net, data = AttributeNet(), latents_of_scenes(codecs, 2 * seed + 1000, CLIPS)
    optimizer = torch.optim.AdamW(net.parameters(), RATE, weight_decay=DECAY)
    generator = torch.Generator().manual_seed(seed)
    for step in track(range(steps), description="attributes"):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, 1.4 * (steps - step) / steps)
        frames, labels = batch_of(data, BATCH, generator)
        t = MOST_NOISE * torch.rand(BATCH, 1, 1, 1, generator=generator).square()
        noise = torch.randn(frames.shape, generator=generator)
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(torch.lerp(frames, noise, t))
        loss = attribute_error(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = accuracy(net, latents_of_scenes(codecs, 2 * seed + 1001, UNSEEN_CLIPS))
    save_file(net.state_dict(), out / "model.safetensors")
    line = {"step": steps, "seconds": round(time.monotonic() - began, 1), **right}
    (out / "log.jsonl").write_text(json.dumps(line) + "\n")
    return right


def load_attributes(path: Path) -> AttributeNet:
    """A trained net, frozen. Raises FileNotFoundError if there is none."""
    net = AttributeNet()
    net.load_state_dict(load_file(path))
    return net.eval().requires_grad_(False)
