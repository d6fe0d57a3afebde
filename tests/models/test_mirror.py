"""The mirror shows its input, whatever the steps and prompts around it."""

import pytest
import torch

from onbeat.models.mirror import SPEC, Mirror, load_mirror
from onbeat.models.registry import load_model, model_names


def media() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    frames = torch.randint(0, 256, (4, 128, 128, 3), generator=generator, dtype=torch.uint8)
    sound = torch.randint(-9000, 9000, (9600,), generator=generator, dtype=torch.int16)
    return frames, sound


def test_what_is_encoded_is_decoded() -> None:
    model, (frames, sound) = Mirror(), media()
    latents = {n: x[None] for n, x in model.encode_media(frames, sound).items()}
    assert {n: tuple(x.shape[1:]) for n, x in latents.items()} == {
        m.name: (m.tokens, m.dim) for m in SPEC.modalities
    }
    decoded = model.decode(latents, [model.new_decoder_state()])
    assert torch.equal(decoded.frames[0], frames)
    assert (decoded.audio[0].int() - sound.int()).abs().max() <= 1


def test_noise_stays_as_grain_and_noise_alone_is_grey() -> None:
    model, (frames, sound) = Mirror(), media()
    clean = {n: x[None] for n, x in model.encode_media(frames, sound).items()}
    t = SPEC.default_strength
    noisy = {n: (1 - t) * x + t * torch.randn(x.shape) for n, x in clean.items()}
    times = {n: torch.tensor([t]) for n in clean}
    x0 = model.denoise(noisy, times, torch.zeros(1, 1), None)  # type: ignore[arg-type]
    shown = model.decode(x0, [None]).frames[0]
    assert (shown.int() - frames.int()).abs().float().mean() < 1.0
    ones = {n: torch.ones(1) for n in clean}
    nothing = model.denoise(noisy, ones, torch.zeros(1, 1), None)  # type: ignore[arg-type]
    assert set(model.decode(nothing, [None]).frames.unique().tolist()) == {128}


def test_it_is_known_by_name_and_has_no_weights() -> None:
    assert "mirror" in model_names()
    assert load_model("mirror").spec.name == "mirror"
    with pytest.raises(ValueError, match="mirror has no weights"):
        load_mirror(weights=__file__)  # type: ignore[arg-type]
