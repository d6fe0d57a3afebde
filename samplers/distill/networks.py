"""The trained part of toybox and one forward of it over clips.

What it is: denoiser and text encoder together, as training sees them, and predictions of a batch of
clips at given times. What it is not: a loss.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.dit import Denoiser
from onbeat.models.toybox.text import TextEncoder
from onbeat.samplers.distill.clip import PROMPTS, Layout, clip_attention, prompt_of_chunk

Both = dict[str, Tensor]
"""Per modality ("audio", "video")."""


class Networks(nn.Module):
    """Denoiser and text encoder."""

    def __init__(self, config: ToyboxConfig) -> None:
        super().__init__()
        self.config = config
        self.denoiser = Denoiser(config)
        self.text = TextEncoder(config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Encoded prompts of b clips: slots [b * 2, prefix, w], pooled [b, 2, w], change [b]."""

    slots: Tensor
    pooled: Tensor
    change: Tensor


def encode(nets: Networks, text: Tensor, change: Tensor) -> Prompts:
    """text int64 [b, 2, slots, pieces]."""
    slots, pooled = nets.text(text.flatten(0, 1))
    return Prompts(slots=slots, pooled=pooled.unflatten(0, (-1, PROMPTS)), change=change)


def predict(nets: Networks, prompts: Prompts, noisy: Both, times: Both, *, history: bool) -> Both:
    """Predictions of x0, float32 [b, s, n, t, d], for `noisy` of that shape at `times` [b, s, n].
    With `history` stream 0 is what the later chunks of all streams remember."""
    b, s, n = times["video"].shape
    layout = Layout(config=nets.config, streams=s, chunks=n, history=history)
    which = prompt_of_chunk(prompts.change, n)
    pooled = prompts.pooled[torch.arange(b)[:, None], which][:, None].expand(-1, s, -1, -1)
    with torch.autocast("cpu", torch.bfloat16):
        prefix = [
            (k.unflatten(0, (b, PROMPTS)).flatten(1, 2), v.unflatten(0, (b, PROMPTS)).flatten(1, 2))
            for k, v in nets.denoiser.prefix(prompts.slots)
        ]
        out = nets.denoiser(
            {name: layout.fold(x) for name, x in noisy.items()},
            {name: layout.fold(t) for name, t in times.items()},
            layout.fold(pooled),
            clip_attention(layout, prefix, prompts.change),
        )
    return {name: layout.unfold(x.float()) for name, x in out.items()}


def mix(x0: Tensor, noise: Tensor, times: Tensor) -> Tensor:
    """x_t = (1 - t) x0 + t z; x0, noise [b, s, n, t, d], times [b, s, n]."""
    return torch.lerp(x0, noise, times[..., None, None])


def shifted(u: Tensor, shift: float) -> Tensor:
    """The schedule's time of grid position u in 0..1 (samplers/schedule.py)."""
    return shift * u / (1.0 + (shift - 1.0) * u)
