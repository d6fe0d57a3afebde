"""Training of the toybox video autoencoder on rendered scenes.

What it is: a resumable, seeded loop within a budget of minutes, with checkpoints, a loss log and
contact sheets. What it is not: the network (models) or the later stages. Two threads work on half
a batch each; on two shared cores that is much faster than one net spread over two threads.
"""

import copy
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from rich.progress import Progress, TextColumn
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from onbeat.models.toybox.quality_codec import psnr, to_float, to_pixels
from onbeat.models.toybox.render import render
from onbeat.models.toybox.scenes import sample_scenes
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.samplers.distill.muon import Muon

WORKERS = 2
CLIPS = 8
"""Scenes per worker and step; two neighbouring frames of each."""
PEAK_RATE, LAST_RATE, WARM_UP = 0.04, 4e-4, 20
NOISE = 0.15
"""Standard deviation of the noise on normalised latents."""
OBJECT_WEIGHT = 3.0
EDGE_WEIGHT = 1.0
SQUARE_WEIGHT = 2.0
EMA = 0.998
STATISTICS_RATE = 0.05
CHECKPOINT_SECONDS = 60.0
UNSEEN_SEED = 2**40


@dataclass(slots=True, kw_only=True)
class _Run:
    """All that a checkpoint holds."""

    codec: VideoCodec
    ema: VideoCodec
    optimizer: torch.optim.Optimizer
    step: int = 0
    seconds: float = 0.0


def frames_of(seed: int, clips: int, frames: int = 2) -> tuple[Tensor, Tensor]:
    """Random scenes, some in the midst of a morph: frames in -1..1 [clips * frames, 3, 128, 128]
    and masks [clips * frames, 1, 128, 128]."""
    batch = sample_scenes(seed, clips, 3, change_probability=0.4)
    pixels, masks = render(batch, 8, frames)
    return to_float(pixels.flatten(0, 1)), masks.flatten(0, 1)[:, None]


def _weights(masks: Tensor) -> Tensor:
    """Pixel weights: more on and about objects; mean 1."""
    near = F.max_pool2d(masks, 8)
    near = F.interpolate(F.max_pool2d(near, 3, 1, 1) * 0.5 + near * 0.5, scale_factor=8.0)
    weights = 1.0 + OBJECT_WEIGHT * near
    return weights / weights.mean()


def reconstruction_loss(got: Tensor, want: Tensor, masks: Tensor) -> Tensor:
    """Weighted L1 and squares over pixels, plus L1 over differences of neighbours."""
    weights = _weights(masks)
    d = got - want
    dx, dy = d[..., 1:] - d[..., :-1], d[..., 1:, :] - d[..., :-1, :]
    edges = (dx.abs() * weights[..., 1:]).mean() + (dy.abs() * weights[..., 1:, :]).mean()
    pixels = ((d.abs() + SQUARE_WEIGHT * d.square()) * weights).mean()
    return pixels + EDGE_WEIGHT * edges


def _work(codec: VideoCodec, seed: int) -> tuple[float, list[Tensor], Tensor, Tensor]:
    """One worker's share of a step: loss, gradients, mean and variance of the raw latents."""
    torch.set_num_threads(1)
    x, masks = frames_of(seed, CLIPS)
    with torch.autocast("cpu", torch.bfloat16):
        raw = codec.encoder(x)
    raw = raw.float()
    var, mean = torch.var_mean(raw, dim=(0, 2, 3))
    z = (raw - mean.view(-1, 1, 1)) / (var.view(-1, 1, 1) + 1e-6).sqrt()
    noise = torch.randn(z.shape, generator=torch.Generator().manual_seed(seed))
    with torch.autocast("cpu", torch.bfloat16):
        got = codec.decoder(z + NOISE * noise)
    loss = reconstruction_loss(got.float(), x, masks)
    grads = torch.autograd.grad(loss, list(codec.parameters()))
    return float(loss.detach()), list(grads), mean.detach(), var.detach()


def _rate(step: int, progress: float) -> float:
    cosine = 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))
    return (LAST_RATE + (PEAK_RATE - LAST_RATE) * cosine) * min(1.0, (step + 1) / WARM_UP)


@torch.no_grad()
def _update_ema(run: _Run) -> None:
    decay = min(EMA, (1.0 + run.step) / (10.0 + run.step))
    torch._foreach_lerp_(list(run.ema.parameters()), list(run.codec.parameters()), 1.0 - decay)


def _step(run: _Run, pool: ThreadPoolExecutor, seed: int, progress: float) -> float:
    seeds = [(seed << 32) + run.step * WORKERS + k for k in range(WORKERS)]
    results = list(pool.map(lambda s: _work(run.codec, s), seeds))
    for i, parameter in enumerate(run.codec.parameters()):
        parameter.grad = torch.stack([r[1][i] for r in results]).mean(0)
    torch.nn.utils.clip_grad_norm_(run.codec.parameters(), 1.0)
    for group in run.optimizer.param_groups:
        group["lr"] = _rate(run.step, progress)
    run.optimizer.step()
    _update_ema(run)
    run.step += 1
    return sum(r[0] for r in results) / WORKERS


@torch.inference_mode()
def set_statistics(codec: VideoCodec, clips: int = 128) -> None:
    """Measures the mean and deviation of the encoder's output and stores them in the codec."""
    raw = torch.cat(
        [codec.encoder(frames_of(UNSEEN_SEED + 1 + i, 16)[0]) for i in range(clips // 16)]
    )
    std, mean = torch.std_mean(raw, dim=(0, 2, 3))
    codec.latent_mean.copy_(mean)
    codec.latent_std.copy_(std)


@torch.inference_mode()
def evaluate(codec: VideoCodec, sheet: Path) -> dict[str, float]:
    """PSNR on unseen scenes, whole and object pixels; writes truth over reconstruction as PNG."""
    x, masks = frames_of(UNSEEN_SEED, 48)
    got = codec.decode(codec.encode(x[None]), codec.new_state())[0]
    rows = []
    for k in range(0, 16, 8):
        rows += [torch.cat(list(part[2 * k : 2 * k + 16 : 2]), dim=-1) for part in (x, got)]
    Image.fromarray(to_pixels(torch.cat(rows, dim=-2)).numpy()).save(sheet)
    return {"psnr": psnr(got, x, torch.ones_like(masks)), "psnr_object": psnr(got, x, masks)}


def _save(run: _Run, out: Path, seed: int, loss: float) -> dict[str, float]:
    """Weights, training state, contact sheet, and one line of the log."""
    set_statistics(run.ema)
    figures = evaluate(run.ema, out / f"sheet-{run.step:06d}.png")
    facts = {"seed": str(seed), "step": str(run.step), "kind": "toybox-video-codec"}
    save_file(run.ema.state_dict(), out / "model.partial", metadata=facts)
    (out / "model.partial").replace(out / "model.safetensors")
    state = {
        "codec": run.codec.state_dict(),
        "ema": run.ema.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "step": run.step,
        "seconds": run.seconds,
    }
    torch.save(state, out / "state.partial")
    (out / "state.partial").replace(out / "state.pt")
    line = {"step": run.step, "seconds": round(run.seconds, 1), "loss": round(loss, 5)}
    with (out / "log.jsonl").open("a") as log:
        log.write(json.dumps(line | {k: round(v, 3) for k, v in figures.items()}) + "\n")
    return figures


def _start(out: Path, seed: int, resume: bool) -> _Run:
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    codec = VideoCodec()
    ema = copy.deepcopy(codec).requires_grad_(False)
    optimizer = Muon(codec.parameters(), lr=PEAK_RATE)
    run = _Run(codec=codec, ema=ema, optimizer=optimizer)
    if resume and (out / "state.pt").exists():
        state = torch.load(out / "state.pt", weights_only=True)
        codec.load_state_dict(state["codec"])
        ema.load_state_dict(state["ema"])
        optimizer.load_state_dict(state["optimizer"])
        run.step, run.seconds = state["step"], state["seconds"]
    return run


def train_video_codec(minutes: float, out: Path, seed: int, resume: bool = True) -> None:
    """Trains until the run has had `minutes` in all (earlier ones count when it resumes) and
    leaves model.safetensors, state.pt, log.jsonl and sheet-*.png in `out`."""
    torch.set_num_threads(1)
    run = _start(out, seed, resume)
    budget, loss, last_save = minutes * 60.0, math.nan, run.seconds
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[text]}"))
    with ThreadPoolExecutor(WORKERS) as pool, Progress(*columns) as bar:
        task = bar.add_task("video codec", total=budget, completed=int(run.seconds), text="")
        while run.seconds < budget:
            began = time.monotonic()
            now = _step(run, pool, seed, run.seconds / budget)
            loss = now if math.isnan(loss) else loss + STATISTICS_RATE * (now - loss)
            run.seconds += time.monotonic() - began
            bar.update(task, completed=run.seconds, text=f"step {run.step} loss {loss:.4f}")
            if run.seconds - last_save >= CHECKPOINT_SECONDS:
                figures, last_save = _save(run, out, seed, loss), run.seconds
                bar.console.print(run.step, round(loss, 4), figures)
        bar.console.print(run.step, _save(run, out, seed, loss))
