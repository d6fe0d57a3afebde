"""A job that goes on in another engine from its latents: the same bits of picture and sound."""

from typing import Any

import pytest
import torch
from torch import nn

from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.dit import Denoiser
from onbeat.models.toybox.model import Toybox
from onbeat.models.toybox.text import TextEncoder
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.server.engine.messages import CloseStream, ControlStream, OpenStream
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.snapshot import Snapshot, pack
from tests.server.engine.drive import Rig

CHUNKS, AT = 18, 12
CONFIG = ToyboxConfig(layers=2, window_chunks=3, width=96, heads=3)
REPLAY = CONFIG.spec().replay_chunks


def small_toybox() -> Toybox:
    """Two layers and a short window, so that chunks soon lie outside of what decides the bits."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        denoiser = Denoiser(CONFIG)
        for name, p in denoiser.named_parameters():
            if name.endswith(("out.weight", "down.weight")):
                nn.init.normal_(p, std=0.05)
        return Toybox(CONFIG, denoiser, TextEncoder(CONFIG), VideoCodec(), AudioCodec())


def job(**more: Any) -> OpenStream:
    return OpenStream(
        stream_id="a", kind="job", prompt="a red ball", seed=5, total_chunks=CHUNKS, **more
    )


def rig_of(**more: Any) -> Rig:
    settings = EngineSettings(decode_lane=False, admission=False, **more)
    return Rig(settings, model=small_toybox())


def made(opening: OpenStream) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Latents and sound by chunk."""
    rig = rig_of()
    rig.engine.submit(opening)
    rig.run(4.0)
    rig.check()
    return (
        {chunk: data for (_, chunk), data in rig.latents.items()},
        {chunk: data for (_, chunk), data in rig.sound.items()},
    )


@pytest.fixture(scope="module")
def whole() -> tuple[dict[int, bytes], dict[int, bytes]]:
    latents, sound = made(job())
    assert sorted(latents) == sorted(sound) == list(range(CHUNKS))
    return latents, sound


def resumed(latents: dict[int, bytes], at: int, keep: int) -> Any:
    kept = [latents[chunk] for chunk in range(max(0, at - keep), at)]
    return made(job(snapshot=pack(Snapshot(next_chunk=at, latents=kept, decoded=at))))


@pytest.mark.parametrize("at", [1, AT, CHUNKS - 1])
def test_picture_and_sound_have_the_bits_of_a_run_that_was_not_interrupted(
    whole: tuple[dict[int, bytes], dict[int, bytes]], at: int
) -> None:
    latents, sound = resumed(whole[0], at, REPLAY)
    assert sorted(latents) == list(range(at, CHUNKS))
    assert all(latents[chunk] == whole[0][chunk] for chunk in latents)
    assert all(sound[chunk] == whole[1][chunk] for chunk in sound)


def test_the_window_alone_is_not_enough(
    whole: tuple[dict[int, bytes], dict[int, bytes]],
) -> None:
    latents, _ = resumed(whole[0], AT, CONFIG.window_chunks)
    assert latents[AT + 1] != whole[0][AT + 1]


def test_a_job_that_was_paused_and_left_its_latents_has_the_same_bits(
    whole: tuple[dict[int, bytes], dict[int, bytes]],
) -> None:
    rig = rig_of(host_memory=0, max_active=1, max_jobs=1)
    rig.engine.submit(job())
    while ("a", AT) not in rig.latents:
        rig.run(0.002)
    rig.engine.submit(ControlStream(stream_id="a", revision=0, paused=True))
    rig.open("guest")
    rig.run(0.3)
    assert rig.engine.roster.streams["a"].place == "latents"
    rig.engine.submit(CloseStream(stream_id="guest"))
    rig.engine.submit(ControlStream(stream_id="a", revision=0, paused=False))
    rig.run(4.0)
    rig.check()
    assert {c: rig.latents["a", c] for c in range(CHUNKS)} == whole[0]
