"""The audio codec: streamed sound equals one-shot sound, rows are alone, seams are silent."""

import copy
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from onbeat.models.toybox import bank
from onbeat.models.toybox.audio_codec import CHUNK_SAMPLES, AudioCodec
from onbeat.models.toybox.concepts import Event
from onbeat.models.toybox.scenes import sample_scenes
from onbeat.models.toybox.sound import render_audio
from onbeat.samplers.distill import audio_training
from onbeat.samplers.distill.audio_training import train_audio_codec, tune_audio_decoder


@pytest.fixture(scope="module")
def codec() -> AudioCodec:
    """Random weights, scaled so that it makes loud sound."""
    torch.manual_seed(1)
    codec = AudioCodec(width=64).eval().requires_grad_(False)
    last = codec.decoder[-1]
    assert isinstance(last, torch.nn.Linear)
    last.bias.fill_(0.35)
    return codec


@pytest.fixture(scope="module")
def latents() -> Tensor:
    return torch.randn(4, 24, 24, generator=torch.Generator().manual_seed(2))


def test_streamed_equals_one_shot(codec: AudioCodec, latents: Tensor) -> None:
    whole = codec.decode(latents, [codec.new_state() for _ in range(4)])
    states = [codec.new_state() for _ in range(4)]
    parts = []
    for chunk in torch.split(latents, 4, 1):
        parts.append(codec.decode(chunk, states))
        states = [pickle.loads(pickle.dumps(s)) for s in states]
    assert whole.dtype == torch.int16 and whole.shape == (4, 6 * CHUNK_SAMPLES)
    assert CHUNK_SAMPLES == 9_600
    assert whole.float().std() > 300
    assert torch.equal(torch.cat(parts, 1), whole)


def test_rows_have_the_same_bits_alone(codec: AudioCodec, latents: Tensor) -> None:
    together = codec.decode(latents, [codec.new_state() for _ in range(4)])
    for row in range(4):
        alone = codec.decode(latents[row : row + 1], [codec.new_state()])
        assert torch.equal(alone[0], together[row])


def test_states_are_apart_and_global_dice_unused(codec: AudioCodec, latents: Tensor) -> None:
    state = codec.new_state()
    codec.decode(latents[:1, :4], [state])
    fork, dice = copy.deepcopy(state), torch.random.get_rng_state()
    first = codec.decode(latents[:1, 4:8], [state])
    torch.rand(3)
    assert torch.equal(codec.decode(latents[:1, 4:8], [fork]), first)
    assert int(state.hops) == 40
    torch.random.set_rng_state(dice)


def test_no_clicks_at_seams() -> None:
    """Tones and noise that change at every hop: the curve is as smooth at the seams of chunks, and
    at those of hops, as elsewhere."""
    generator = torch.Generator().manual_seed(3)
    levels = 0.7 * torch.rand(1_000, 112, generator=generator)
    levels[:, 60:96] = 0
    last, phases, parts = torch.zeros(112), bank.first_phases(), []
    for i in range(50):
        chunk = levels[20 * i : 20 * i + 20]
        parts.append(bank.synthesise(chunk, last, phases, 20 * i))
        last, phases = chunk[-1], bank.advance_phases(phases, 20)
    bend = torch.cat(parts).diff(n=2).abs()
    for edges in (torch.arange(1, 50) * 9_600, torch.arange(1, 999) * 480):
        at = torch.maximum(bend[edges - 1], bend[edges - 2])
        near = [torch.maximum(bend[edges + d], bend[edges + d - 1]) for d in (-9, -5, 5, 9)]
        assert at.mean() < 1.15 * torch.stack(near).mean()
        assert at.max() < 1.15 * torch.stack(near).max()


def test_silence_in_silence_out() -> None:
    assert bank.analyse(torch.zeros(1, 4_800)).abs().max() == 0
    wave = bank.synthesise(torch.zeros(20, 112), torch.zeros(112), bank.first_phases(), 0)
    assert wave.abs().max() == 0


def test_analysis_is_streaming_exact() -> None:
    """A hop depends on its own sound and 90 ms after it, on nothing before or beyond."""
    wave = 0.1 * torch.randn(2, 24_000, generator=torch.Generator().manual_seed(4))
    whole = bank.analyse(wave)
    for first in (0, 20, 60):
        part = wave[:, first * 240 : (first + 20) * 240 + bank.LOOK_AHEAD]
        near = bank.analyse(part)[:, :10]
        torch.testing.assert_close(near, whole[:, first : first + 10], atol=2e-4, rtol=0)


@pytest.mark.parametrize("midi", [60, 69, 76])
def test_bank_keeps_a_tone(midi: int) -> None:
    """Analysis and synthesis keep pitch, level and time of a beep within 1 dB and 10 ms."""
    event = Event(
        time=0.303, actor=0, kind="strike", material="metal", semitone=float(midi), gain=0.9
    )
    scenes = sample_scenes(0, 1, 5)
    object.__setattr__(scenes, "events", [[event]])
    object.__setattr__(scenes, "ambience", [["silence"] * 5])
    wave = render_audio(scenes)
    levels = bank.analyse(wave)[0]
    assert int(levels[60, :96].argmax()) == midi - 33
    rising = int((levels[:, midi - 33] > 0.5).nonzero()[0])
    assert abs(rising - 30) <= 1
    heard = bank.synthesise(levels, torch.zeros(112), bank.first_phases(), 0)
    ratio = float(heard.square().mean() / wave.square().mean())
    assert 0.79 < ratio < 1.26


def test_noise_keeps_its_level() -> None:
    wave = 0.02 * torch.randn(1, 48_000, generator=torch.Generator().manual_seed(5))
    levels = bank.analyse(wave)[0, :180]
    heard = bank.synthesise(levels, levels[0], bank.first_phases(), 0)
    assert float(heard.std()) == pytest.approx(0.02, rel=0.12)


def test_wrong_shapes_are_named(codec: AudioCodec) -> None:
    with pytest.raises(ValueError, match=r"latents: \(1, 3, 24\) for 1 states"):
        codec.decode(torch.zeros(1, 3, 24), [codec.new_state()])


def test_encode_gives_a_latent_per_frame(codec: AudioCodec) -> None:
    assert codec.encode(torch.zeros(2, 24_000)).shape == (2, 20, 24)


def test_file_round_trip(codec: AudioCodec, latents: Tensor, tmp_path: Path) -> None:
    save_file(codec.state_dict(), tmp_path / "model.safetensors")
    again = AudioCodec.load(tmp_path / "model.safetensors")
    args = latents[:1], [codec.new_state()]
    assert torch.equal(again.decode(latents[:1], [again.new_state()]), codec.decode(*args))


def test_training_runs_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio_training, "POOL_REFILLS", 2)
    path = train_audio_codec(0.02, tmp_path, 0)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    train_audio_codec(0.04, tmp_path, 0)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) > len(lines)
    assert AudioCodec.load(path).encode(torch.zeros(1, 4_800)).shape == (1, 4, 24)
    assert (tmp_path / "truth.wav").stat().st_size > 1_000


def test_tuning_leaves_the_latents_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio_training, "POOL_REFILLS", 2)
    path = train_audio_codec(0.005, tmp_path / "first", 0)
    tuned = AudioCodec.load(tune_audio_decoder(0.01, path, tmp_path / "second", 1))
    first = AudioCodec.load(path)
    wave = render_audio(sample_scenes(1, 2, 5))
    assert torch.equal(first.encode(wave), tuned.encode(wave))
    weights = first.state_dict(), tuned.state_dict()
    assert not torch.equal(*(w["decoder.0.weight"] for w in weights))
