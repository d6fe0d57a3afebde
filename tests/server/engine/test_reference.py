"""Reference media: checked, encoded piece by piece, committed as history, shared while equal."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onbeat.models.toybox.model import Toybox
from onbeat.server.engine.messages import CloseStream
from onbeat.server.engine.reference import pack_reference, unpack_reference
from onbeat.server.engine.settings import EngineSettings
from tests.server.engine.drive import Rig, affine
from tests.server.engine.fake import SPEC

OPEN = EngineSettings(decode_lane=False, admission=False)
PER_FRAME = SPEC.sample_rate // SPEC.fps


def clip(frames: int, level: int = 0, **more: Any) -> bytes:
    """Frame i has the grey `level` + i."""
    grey = np.arange(level, level + frames, dtype=np.uint8)[:, None, None, None]
    pixels = np.broadcast_to(grey, (frames, SPEC.height, SPEC.width, 3))
    sound = np.zeros(frames * PER_FRAME, np.int16)
    values: dict[str, Any] = {"fps": SPEC.fps, "sample_rate": SPEC.sample_rate, **more}
    return pack_reference(pixels, sound, **values)


def test_the_newest_chunks_of_a_clip_are_kept() -> None:
    reference = unpack_reference(clip(30), SPEC)
    assert reference.chunks == SPEC.window_chunks
    greys = [int(reference.chunk(i)[0][0, 0, 0, 0]) for i in range(3)]
    assert greys == [18, 22, 26]
    assert [len(reference.chunk(i)[1]) // PER_FRAME for i in range(3)] == [12, 8, 4]


@pytest.mark.parametrize(("frames", "chunks", "first"), [(1, 1, [0] * 4), (6, 2, [0, 0, 0, 1])])
def test_a_first_chunk_begins_with_its_first_frame_standing_still(
    frames: int, chunks: int, first: list[int]
) -> None:
    reference = unpack_reference(clip(frames), SPEC)
    assert reference.chunks == chunks
    assert reference.chunk(0)[0][:, 0, 0, 0].tolist() == first
    assert len(reference.sound) == chunks * SPEC.chunk_samples


def test_equal_content_has_one_digest() -> None:
    one, same, other = (unpack_reference(clip(8, level), SPEC) for level in (3, 3, 4))
    assert one.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"no", "2 bytes that are no reference"),
        (clip(201), "201 frames; allowed: 1 to 200"),
        (clip(4, fps=30), "fps is 30; allowed: 20"),
        (clip(4, sample_rate=44_100), "sample_rate is 44100; allowed: 48000"),
        (
            pack_reference(
                np.zeros((1, 8, 8, 3), np.uint8), np.zeros(0, np.int16), fps=20, sample_rate=48_000
            ),
            "width is 8; allowed: 16",
        ),
        (
            pack_reference(
                np.zeros((1, 16, 16, 3), np.uint8),
                np.zeros(7, np.int16),
                fps=20,
                sample_rate=48_000,
            ),
            "14 bytes of sound; allowed: 0 or 4800",
        ),
    ],
)
def test_what_is_wrong_with_a_reference_is_named(data: bytes, text: str) -> None:
    with pytest.raises(ValueError, match="reference: ") as caught:
        unpack_reference(data, SPEC)
    assert text in str(caught.value)
    rig = Rig(OPEN)
    rig.open("a", reference=data)
    rig.run(0.01)
    (refusal,) = rig.refused()
    assert refusal.code == "invalid" and text in refusal.reason
    rig.check()


def test_a_stream_goes_on_from_its_reference() -> None:
    plain, rig = Rig(OPEN), Rig(OPEN)
    plain.open("a", seed=4)
    plain.run(1.0)
    rig.open("a", seed=4, reference=clip(100))
    rig.run(0.02)
    stream = rig.engine.roster.streams["a"]
    assert stream.preparing or stream.history
    rig.run(1.5)
    assert rig.ready("a")[0].chunk == 0 and rig.ready("a")[0].steps == SPEC.first_chunk_steps
    assert rig.latents["a", 0] != plain.latents["a", 0]
    assert sum(rig.model.commits[:8]) >= SPEC.window_chunks
    made = len([e for e in rig.ready("a")])
    assert stream.decoder["chunks"] == made + 1, "its decoder has heard the end of the clip"
    assert stream.reference is None and not rig.dropped()
    rig.check()


def test_a_reference_that_cannot_be_encoded_ends_its_stream_alone() -> None:
    rig = Rig(OPEN)
    rig.open("a")
    rig.run(1.0)
    white = np.full((4, 16, 16, 3), 255, np.uint8)
    data = pack_reference(white, np.zeros(0, np.int16), fps=20, sample_rate=48_000)
    rig.open("b", reference=data)
    rig.run(1.0)
    assert rig.ended()["b"].error == "ValueError: reference: a white chunk"
    assert rig.ready("a")[-1].on_time and "a" in rig.engine.roster.streams
    rig.check()


def test_a_model_without_encoders_says_so() -> None:
    rig = Rig(OPEN)
    rig.engine.roster.spec = replace(SPEC, takes_reference=False)
    rig.open("a", reference=clip(4))
    rig.run(0.01)
    assert rig.refused()[0].reason == "reference: fake has no encoders; allowed: none"
    rig.check()


def test_equal_references_share_pages_until_they_diverge() -> None:
    rig = Rig(OPEN)
    rig.open("a", reference=clip(12), seed=1)
    while not rig.engine.roster.streams or rig.engine.roster.streams["a"].preparing:
        rig.engine.tick()
    while rig.engine.roster.streams["a"].uncommitted:
        rig.engine.tick()
    rig.engine.tick()
    used, commits = rig.engine.pool.used, sum(rig.model.commits)
    assert used == SPEC.window_chunks + 1
    rig.open("b", reference=clip(12), seed=2)
    rig.open("c", reference=clip(12), seed=2, prompt="another")
    rig.engine.tick()
    while any(s.preparing or s.uncommitted for s in rig.engine.roster.streams.values()):
        rig.engine.tick()
    first, second, third = (rig.engine.roster.streams[name].window for name in "abc")
    if not rig.ready("a"):
        assert set(second.readable()) == set(first.readable())
        assert sum(rig.model.commits) - commits == SPEC.window_chunks, "only the other prompt's"
    assert not set(third.readable()) & set(second.readable())
    rig.engine.check_integrity()
    rig.run(1.0)
    assert not set(first.readable()) & set(second.readable())
    rig.engine.check_integrity()
    for name in "bac":
        rig.engine.submit(CloseStream(stream_id=name))
        rig.run(0.05)
        rig.engine.check_integrity()
    assert (rig.engine.pool.used, rig.engine.pool.reserved) == (0, 0)
    rig.check()


def test_a_reference_that_joins_delays_nobody() -> None:
    rig = Rig(OPEN, step_cost=affine(0.01, 0.004))
    rig.model.encode_cost = 0.005
    for i in range(5):
        rig.open(f"n{i}", seed=i)
    rig.run(2.0)
    rig.open("a", reference=clip(100))
    rig.run(2.0)
    assert rig.ready("a") and not rig.dropped() and all(e.on_time for e in rig.ready())
    rig.check()


def test_a_stream_that_closes_while_it_is_encoded_leaves_nothing() -> None:
    for ticks in range(6):
        rig = Rig(OPEN)
        rig.open("a", reference=clip(100))
        for _ in range(ticks):
            rig.engine.tick()
        rig.engine.submit(CloseStream(stream_id="a"))
        rig.run(0.1)
        assert (rig.engine.pool.used, rig.engine.pool.reserved) == (0, 0)
        rig.check()


def test_toybox_encodes_what_it_decodes() -> None:
    model = Toybox.random(1)
    spec = model.spec
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (12, spec.height, spec.width, 3), dtype=np.uint8)
    data = pack_reference(pixels, np.zeros(0, np.int16), fps=20, sample_rate=48_000)
    rig = Rig(OPEN, model=model)
    rig.open("a", reference=data)
    rig.run(1.0)
    assert rig.ready("a") and not rig.ended()
    rig.check()
