"""What a run shows of itself: contact sheets, sounds, and how often prompts are obeyed.

What it is: samples of the moving average of the weights at the serving schedule, for a checkpoint.
What it is not: the quality report of a release.
"""

import copy
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.concepts import BACKGROUNDS, COLOURS, MOTIONS, SHAPES
from onbeat.models.toybox.detector import detect
from onbeat.models.toybox.model import Toybox
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.samplers.distill.audio_training import write_wav
from onbeat.samplers.distill.generate import generate_many
from onbeat.samplers.distill.networks import Networks

MOVES = {
    "bounce": "bouncing",
    "float": "floating",
    "orbit": "orbiting",
    "roll": "rolling",
    "pulse": "pulsing",
}
PLACES = {
    "stars": "the night sky",
    "sunset": "a sunset",
    "sea": "the sea",
    "meadow": "a meadow",
    "desert": "the desert",
    "snow": "the snow",
    "city": "the city",
    "rain": "the rain",
}


def one_object_prompts(count: int) -> list[tuple[str, str, str, str]]:
    """(prompt, background, colour, shape), all attributes in turn."""
    rows = []
    for i in range(count):
        place = BACKGROUNDS[i % len(BACKGROUNDS)]
        colour = COLOURS[(i // len(BACKGROUNDS) + 3 * i) % len(COLOURS)]
        shape, move = SHAPES[(i * 2 + i // 5) % len(SHAPES)], MOTIONS[(i + i // 7) % len(MOTIONS)]
        text = f"a {colour} {shape} {MOVES[move]} over {PLACES[place]}"
        rows.append((text, place, colour, shape))
    return rows


def served(nets: Networks, codecs: tuple[VideoCodec, AudioCodec]) -> Toybox:
    """A model for serving from copies of networks in training."""
    parts = copy.deepcopy((nets.denoiser, nets.text, *codecs))
    return Toybox(nets.config, *parts)


def accuracy(
    model: Toybox, prompts: list[tuple[str, str, str, str]], chunks: int, steps: int | None
) -> tuple[dict[str, float], Tensor, Tensor]:
    """Shares of prompts obeyed, judged on each clip's last 8 frames, and the clips."""
    texts = [p[0] for p in prompts]
    frames, audio = generate_many(model, lambda _: texts, range(len(texts)), chunks, steps)
    hits = {"background": 0, "found": 0, "colour": 0, "shape": 0}
    for clip, (_, place, colour, shape) in zip(frames, prompts, strict=True):
        seen = detect(clip[-8:])
        hits["background"] += seen.background == place
        hits["found"] += seen.found >= 0.5
        hits["colour"] += seen.colour == colour
        hits["shape"] += seen.shape == shape
    return {name: n / len(prompts) for name, n in hits.items()}, frames, audio


def contact_sheet(frames: Tensor, columns: int, path: Path) -> None:
    """Rows of clips, `columns` frames each, evenly over their length."""
    at = torch.linspace(0, frames.shape[1] - 1, columns).round().long()
    grid = frames[:, at].permute(0, 2, 1, 3, 4).flatten(2, 3).flatten(0, 1)
    Image.fromarray(np.ascontiguousarray(grid.numpy())).save(path)


def write_samples(
    model: Toybox, out: Path, step: int, *, chunks: int, prompts: int, steps: int | None = None
) -> dict[str, float]:
    """Sheet and WAV of the first clips, and the shares of obeyed prompts."""
    figures, frames, audio = accuracy(model, one_object_prompts(prompts), chunks, steps)
    if chunks == 1:
        sheet = frames[:, :1].unflatten(0, (-1, 8)).flatten(1, 2)
        contact_sheet(sheet, 8, out / f"sheet-{step:06d}.png")
    else:
        contact_sheet(frames[:12], 10, out / f"sheet-{step:06d}.png")
        sound = torch.cat([a.float() / 32_767 for a in audio[:4]])
        write_wav(out / f"sound-{step:06d}.wav", sound, model.spec.sample_rate)
    return figures
