"""Training of toybox's audio codec on rendered sounds.

What it is: the loop of `onbeat train toybox --stage audio`: endless random sounds, a weighted L1 on
band levels, a resumable checkpoint and WAV files to listen to. What it is not: the codec itself, or
the choice of the stages. Every draw is a function of (seed, step).
"""

import json
import math
import time
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from onbeat.models.toybox import bank
from onbeat.models.toybox.audio_codec import FRAME_NUMBERS, LATENT_DIM, AudioCodec
from onbeat.models.toybox.concepts import AMBIENCES, MATERIALS, Event
from onbeat.models.toybox.scenes import sample_scenes
from onbeat.models.toybox.sound import CHUNK_SECONDS, render_audio
from onbeat.samplers.distill.muon import Muon

CLIP_CHUNKS = 12
CLIP_FRAMES = CLIP_CHUNKS * 4 - 2
"""Frames of a clip that are trained on; the last two miss their look-ahead."""
REFILL_CLIPS = 8
POOL_REFILLS = 48
REFILL_STEPS = 2
"""Steps between refills; with many more the codec learns the pool by heart."""
BATCH_CLIPS = 24
PEAK_RATE = 0.04
LATENT_NOISE = 0.1
AVERAGE = 0.98
REPORT_EVERY = 20
SAVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSounds:
    """A soundtrack without a picture: more varied than scenes, so that the codec covers them."""

    events: list[list[Event]]
    ambience: list[list[str]]
    seconds: float


def random_sounds(seed: int, count: int, chunks: int) -> RandomSounds:
    """Clips with 0-4 events a second of any kind, material and pitch, under any ambience."""
    rng = np.random.Generator(np.random.Philox(seed))
    seconds = chunks * CHUNK_SECONDS
    events, ambience = [], []
    for _ in range(count):
        times = np.sort(rng.uniform(0, seconds, rng.poisson(rng.uniform(0, 4) * seconds)))
        events.append([_random_event(rng, float(t)) for t in times])
        turn = int(rng.integers(1, chunks))
        kinds = [str(k) for k in rng.choice(AMBIENCES, 2)]
        ambience.append([kinds[0]] * turn + [kinds[int(rng.random() < 0.3)]] * (chunks - turn))
    return RandomSounds(events=events, ambience=ambience, seconds=seconds)


def _random_event(rng: np.random.Generator, time: float) -> Event:
    return Event(
        time=time,
        actor=0,
        kind="strike" if rng.random() < 0.8 else "beep",
        material=str(rng.choice(MATERIALS)),
        semitone=float(rng.integers(56, 80)),
        gain=float(rng.uniform(0.25, 1)),
    )


def clip_levels(seed: int) -> Tensor:
    """Levels of one refill, scenes and a quarter of free sounds: [8, 46, 560]."""
    free = REFILL_CLIPS // 4
    scenes = sample_scenes(seed, REFILL_CLIPS - free, CLIP_CHUNKS)
    waves = [render_audio(scenes), render_audio(random_sounds(seed, free, CLIP_CHUNKS))]
    levels = bank.analyse(torch.cat(waves))
    return levels.view(REFILL_CLIPS, -1, FRAME_NUMBERS)[:, :CLIP_FRAMES].clamp(max=1)


def onset_weight(levels: Tensor) -> Tensor:
    """3 on the 30 ms after a rise of the whole spectrum, else 1: [b, hops, 112] -> [b, hops, 1]."""
    rise = (levels[:, 1:] - levels[:, :-1]).clamp(min=0).sum(-1) > 1.0
    onset = F.pad(rise.float(), (3, 0))
    return 1 + 2 * F.max_pool1d(onset, 3, 1)[..., None]


def level_loss(logits: Tensor, truth: Tensor) -> Tensor:
    """Weighted error of levels [b, f, 560]: a scalar, 0 for the truth.

    Loud bands (true or false alarm) and onsets count more. A plain L1 finds rare tones last, as
    silence is the median of every band; the divergence of levels read as probabilities does not
    have this dead zone. The error of the amplitudes themselves keeps tones from overshooting.
    """
    found = logits.sigmoid()
    near = onset_weight(truth.view(truth.shape[0], -1, bank.BANDS))
    weight = 0.3 + 3 * torch.maximum(truth, found.detach())
    weight = weight * near.expand(-1, -1, bank.BANDS).reshape(truth.shape)
    cross = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    entropy = torch.special.entr(truth) + torch.special.entr(1 - truth)
    level: Tensor = (cross - entropy + 0.3 * (found - truth).abs()) * weight
    loudness: Tensor = (bank.from_log(found) - bank.from_log(truth)).abs()
    return (level + loudness).mean()


@dataclass(slots=True, kw_only=True)
class _Run:
    """Everything that a checkpoint holds."""

    codec: AudioCodec
    average: AudioCodec
    optimiser: Muon
    step: int = 0
    seconds: float = 0.0

    def save(self, path: Path) -> None:
        state = {
            "codec": self.codec.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
        }
        torch.save(state, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)

    def load(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        self.codec.load_state_dict(state["codec"])
        self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.seconds = state["step"], state["seconds"]


def _new_run(seed: int) -> _Run:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        codec, average = AudioCodec(), AudioCodec()
    average.load_state_dict(codec.state_dict())
    average.requires_grad_(False)
    optimiser = Muon(codec.parameters(), lr=PEAK_RATE)
    return _Run(codec=codec, average=average, optimiser=optimiser)


def _batches(seed: int, step: int) -> Iterator[tuple[Tensor, torch.Generator]]:
    """From `step` on: a batch [24, 46, 560] out of a pool of the last 384 clips, and its dice."""
    base, refill = seed * 1_000_003 + 17, step // REFILL_STEPS
    pool = [clip_levels(base + refill + i) for i in range(POOL_REFILLS)]
    while True:
        dice = torch.Generator().manual_seed(base + step)
        picks = torch.randint(POOL_REFILLS * REFILL_CLIPS, (BATCH_CLIPS,), generator=dice)
        rows = [pool[i // REFILL_CLIPS][i % REFILL_CLIPS] for i in picks.tolist()]
        yield torch.stack(rows), dice
        step += 1
        if step % REFILL_STEPS == 0:
            pool.append(clip_levels(base + POOL_REFILLS + refill))
            pool, refill = pool[1:], refill + 1


def _learning_rate(done: float) -> float:
    """A short rise, then a fall to zero; `done` = share of the time budget used, 0..1."""
    fall = float((1 - min(done, 1)) ** 0.7)
    return PEAK_RATE * min(1, done / 0.02 + 0.05) * fall


def _latents(codec: AudioCodec, levels: Tensor) -> Tensor:
    """Normalised by the batch, or, once the encoder is frozen, by the codec's own numbers."""
    raw = codec.raw_latents(levels).float()
    if not _encoder_learns(codec):
        return codec.normalise(raw, codec.mean, codec.std)
    return codec.normalise(raw, raw.mean((0, 1)), raw.std((0, 1)) + 1e-4)


def _train_step(run: _Run, levels: Tensor, dice: torch.Generator) -> float:
    codec = run.codec
    with torch.autocast("cpu", torch.bfloat16):
        latents = _latents(codec, levels)
        latents = latents + LATENT_NOISE * torch.randn(latents.shape, generator=dice)
        logits = codec.logits(latents).float()
    loss = level_loss(logits, levels)
    run.optimiser.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(codec.parameters(), 1.0)
    run.optimiser.step()
    rate = min(AVERAGE, (1 + run.step) / (10 + run.step))
    with torch.no_grad():
        for old, new in zip(run.average.parameters(), codec.parameters(), strict=True):
            old.lerp_(new, 1 - rate)
    return float(loss.detach())


@torch.no_grad()
def calibrate(codec: AudioCodec, levels: Tensor) -> None:
    """Sets the codec's mean and std so that latents of `levels` [n, f, 560] have unit variance."""
    raw = codec.raw_latents(levels).view(-1, LATENT_DIM)
    codec.mean.copy_(raw.mean(0))
    codec.std.copy_(raw.std(0))


def write_wav(path: Path, sound: Tensor, rate: int) -> None:
    """Mono 16 bit file of int16 [samples], or float [samples] within +-1."""
    if sound.is_floating_point():
        sound = (sound.clamp(-1, 1) * 32_767).round().to(torch.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(sound.numpy().astype("<i2").tobytes())


def _publish(run: _Run, out: Path, seed: int) -> dict[str, float]:
    """Writes the averaged codec and a sound before and after; returns its held-out loss."""
    held_out = torch.cat([clip_levels(900_000_000 + i) for i in range(8)])
    codec = run.average
    if _encoder_learns(run.codec):
        calibrate(codec, held_out)
    notes = {"stage": "audio", "seed": str(seed), "step": str(run.step)}
    save_file(codec.state_dict(), out / "model.safetensors.tmp", metadata=notes)
    (out / "model.safetensors.tmp").replace(out / "model.safetensors")
    scenes = sample_scenes(900_000_100, 4, 20)
    truth = render_audio(scenes)
    heard = codec.decode(codec.encode(truth), [codec.new_state() for _ in truth])
    write_wav(out / "truth.wav", truth.flatten(), bank.RATE)
    write_wav(out / "reconstruction.wav", heard.flatten(), bank.OUT_RATE)
    with torch.no_grad():
        latents = codec.normalise(codec.raw_latents(held_out), codec.mean, codec.std)
        logits = codec.logits(latents)
    error = (logits.sigmoid() - held_out).abs()
    return {
        "held_out_loss": float(level_loss(logits, held_out)),
        "held_out_l1": float(error.mean()),
        "held_out_l1_loud": float(error[held_out > 0.5].mean()),
        "latent_peak": float(latents.abs().max()),
    }


def train_audio_codec(minutes: float, out: Path, seed: int, resume: bool = True) -> Path:
    """Trains for `minutes` of wall time in all (resumed time counts) and returns the weights' path.

    Writes to `out`: model.safetensors, checkpoint.pt, log.jsonl, truth.wav (24 kHz) and
    reconstruction.wav (48 kHz). Sets no thread count. Raises OSError if `out` cannot be written.
    """
    return _train(_new_run(seed), minutes, out, seed, resume)


def tune_audio_decoder(
    minutes: float, weights: Path, out: Path, seed: int, resume: bool = True
) -> Path:
    """As `train_audio_codec`, from the codec in `weights` and with its encoder frozen: latents mean
    the same before and after, so a model of latents stays valid."""
    run = _new_run(seed)
    for codec in (run.codec, run.average):
        codec.load_state_dict(load_file(weights))
    run.codec.encoder.requires_grad_(False)
    return _train(run, minutes, out, seed, resume)


def _encoder_learns(codec: AudioCodec) -> bool:
    return any(p.requires_grad for p in codec.encoder.parameters())


def _train(run: _Run, minutes: float, out: Path, seed: int, resume: bool) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.pt"
    if resume and checkpoint.exists():
        run.load(checkpoint)
    losses: list[float] = []
    last = saved = time.monotonic()
    for levels, dice in _batches(seed, run.step):
        if run.seconds >= 60 * minutes:
            break
        for group in run.optimiser.param_groups:
            group["lr"] = _learning_rate(run.seconds / (60 * minutes))
        losses.append(_train_step(run, levels.float(), dice))
        run.step += 1
        now = time.monotonic()
        run.seconds, last = run.seconds + now - last, now
        if run.step % REPORT_EVERY == 0:
            _log(out, run, {"loss": sum(losses) / len(losses)})
            losses.clear()
        if now - saved > SAVE_SECONDS:
            run.save(checkpoint)
            _log(out, run, _publish(run, out, seed))
            saved = now
    run.save(checkpoint)
    _log(out, run, _publish(run, out, seed))
    return out / "model.safetensors"


def _log(out: Path, run: _Run, values: dict[str, float]) -> None:
    line = {"step": run.step, "seconds": round(run.seconds, 1), **values}
    assert all(math.isfinite(v) for v in line.values()), line
    with (out / "log.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
