"""Where the noise of a chunk begins: on nothing, or part of the way down on its encoded input.

The mix and the first step are tied: the input is mixed with noise to just the level that the first
step is told, for whatever strength. All steps are kept (`at_strength`). A modality without a source
(sound, with no microphone) starts from noise alone, with the same number of steps. What it is not:
the time at which the input is taken (input_encode.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from onbeat.models.spec import CausalModel, ModelSpec
from onbeat.samplers.sampler import Sampler, shared
from onbeat.samplers.schedule import at_strength
from onbeat.samplers.serving import served_samplers
from onbeat.server.engine.input_track import DIGITS, Clip
from onbeat.server.engine.streams import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """A chunk's samplers by modality, and the clean latents that it starts from, if any."""

    samplers: Mapping[str, Sampler]
    source: Mapping[str, torch.Tensor] | None


def begin(stream: Stream, steps: int, spec: ModelSpec) -> Beginning:
    """Of the stream's next chunk."""
    given, samplers = stream.input, served_samplers(spec.modalities, steps)
    if given is None or given.settled != stream.chunk or not given.source:
        return Beginning(samplers=samplers, source=None)
    asked = spec.default_strength if stream.now.strength is None else stream.now.strength
    strength = round(given.strength(asked), DIGITS)
    return Beginning(
        samplers={
            name: _begun(sampler, strength) if name in given.source else sampler
            for name, sampler in samplers.items()
        },
        source=given.source,
    )


@lru_cache(maxsize=4096)
def _begun(sampler: Sampler, strength: float) -> Sampler:
    return shared(at_strength(sampler, strength))


def encode_clip(model: CausalModel, clip: Clip) -> dict[str, torch.Tensor]:
    """Latents of the pictures, and of the sound if any was heard; what follows the sound is not
    known yet and taken as silence."""
    frames = torch.from_numpy(np.stack(clip.pictures))
    silence = np.zeros(model.spec.chunk_samples, np.int16)
    sound = silence if clip.sound is None else clip.sound
    latents = model.encode_media(frames, torch.from_numpy(sound))
    return {n: x for n, x in latents.items() if n != "audio" or clip.sound is not None}
