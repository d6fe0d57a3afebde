"""Scenes: the same seed gives the same world, sounds fall where things touch, prompts name it."""

import numpy as np
import pytest

from onbeat.models.toybox.concepts import (
    AMBIENCE_OF,
    CHUNK_FRAMES,
    COLOURS,
    FPS,
    MOTIONS,
    SHAPES,
    ActorLabel,
    is_held_out,
)
from onbeat.models.toybox.physics import FLOOR, Law, contacts, position
from onbeat.models.toybox.scenes import MORPH_SECONDS, SceneBatch, sample_scenes

LAW = Law(motion="bounce", size="big", radius=0.22, phase=(0.3, 0.6), drift=-0.2, home=0.5)


def _batch(**more: float) -> SceneBatch:
    return sample_scenes(3, 24, 12, **more)  # type: ignore[arg-type]


def test_same_seed_same_scenes_other_seed_others() -> None:
    a, b, c = sample_scenes(5, 4, 3), sample_scenes(5, 4, 3), sample_scenes(6, 4, 3)
    assert a.prompts == b.prompts and a.events == b.events
    assert np.array_equal(a.tracks.x, b.tracks.x) and np.array_equal(a.tracks.rgb, b.tracks.rgb)
    assert a.prompts != c.prompts


def test_lists_have_an_entry_per_chunk_and_tracks_one_per_frame() -> None:
    batch = _batch()
    assert (batch.count, batch.chunks) == (24, 12)
    assert batch.seconds == pytest.approx(2.4)
    assert batch.tracks.x.shape == (24, 12 * CHUNK_FRAMES, 2)
    for labels, sounds in zip(batch.attributes, batch.ambience, strict=True):
        assert sounds == [AMBIENCE_OF[label.background] for label in labels]


def test_actors_stay_inside_the_frame() -> None:
    t = _batch().tracks
    shown = t.opacity > 0
    assert (t.x - t.radius)[shown].min() > -0.05 and (t.x + t.radius)[shown].max() < 1.05
    assert (t.y - t.radius)[shown].min() > -0.05 and (t.y + t.radius)[shown].max() < 1.05


@pytest.mark.parametrize("motion", ["bounce", "roll"])
def test_strikes_are_the_moments_of_contact(motion: str) -> None:
    law = Law(motion=motion, size="small", radius=0.17, phase=(0.1, 0.9), drift=0.21, home=0.5)
    events = list(contacts(law, 1.0, 6.0, 0, "wood"))
    assert len(events) >= 4
    x, y, _ = position(law, np.array([e.time for e in events]))
    gaps = np.stack([FLOOR - law.radius - y, x - law.radius, 1 - law.radius - x])
    touch = gaps if motion == "bounce" else gaps[1:]
    assert np.abs(touch).min(axis=0).max() < 1e-9


def test_every_floor_contact_sounds() -> None:
    t = np.linspace(0, 5, 50_001)
    y = position(LAW, t)[1]
    lowest = t[1:-1][(y[1:-1] >= y[:-2]) & (y[1:-1] >= y[2:])]
    heard = np.array([e.time for e in contacts(LAW, 0, 5, 0, "wood") if e.gain > 0.5])
    assert len(lowest) == len(heard)
    assert np.abs(np.sort(heard) - lowest).max() < 2e-3


def test_contacts_of_adjoining_spans_are_the_contacts_of_the_whole() -> None:
    whole = sorted(e.time for e in contacts(LAW, 0, 9, 0, "drum"))
    parts = [e.time for a in range(9) for e in contacts(LAW, a, a + 1, 0, "drum")]
    assert sorted(parts) == whole


def test_pitch_falls_with_size() -> None:
    big = next(iter(contacts(LAW, 0, 5, 0, "wood")))
    small_law = Law(motion="bounce", size="small", radius=0.16, phase=(0, 0), drift=0.2, home=0.5)
    assert next(iter(contacts(small_law, 0, 5, 0, "wood"))).semitone > big.semitone + 6


def test_events_are_in_order_inside_the_clip_and_common() -> None:
    batch = _batch()
    for events in batch.events:
        times = [e.time for e in events]
        assert times == sorted(times)
        assert all(0 <= t < batch.seconds for t in times)
    assert np.mean([len(e) > 0 for e in batch.events]) > 0.6


def test_prompts_change_at_chunk_boundaries_and_the_world_settles_in_time() -> None:
    batch = _batch(change_probability=1.0)
    frames = round(MORPH_SECONDS * FPS)
    for i, labels in enumerate(batch.attributes):
        starts = [c for c in range(1, 12) if labels[c] is not labels[c - 1]]
        assert len(starts) == 1
        first = starts[0] * CHUNK_FRAMES
        rgb = batch.tracks.rgb[i]
        assert np.array_equal(rgb[:first], np.broadcast_to(rgb[0], rgb[:first].shape))
        after = rgb[first + frames :]
        assert np.array_equal(after, np.broadcast_to(rgb[-1], after.shape))


def test_steady_clips_keep_their_prompt_and_one_object_means_one() -> None:
    batch = sample_scenes(9, 30, 4, change_probability=0.0, one_object=True)
    assert all(len(set(row)) == 1 for row in batch.prompts)
    assert all(len(row[0].actors) == 1 for row in batch.attributes)
    assert not batch.tracks.opacity[:, :, 1].any()


def test_no_jump_between_frames_even_when_the_prompt_changes() -> None:
    t = _batch(change_probability=1.0).tracks
    step = np.hypot(np.diff(t.x, axis=1), np.diff(t.y, axis=1))
    assert step[t.opacity[:, 1:] > 0].max() < 0.2


def test_a_clip_starts_alike_in_batches_of_any_size_and_length() -> None:
    a, b = sample_scenes(5, 2, 3), sample_scenes(5, 6, 8)
    assert [row[0] for row in a.prompts] == [row[0] for row in b.prompts[:2]]
    assert np.array_equal(a.tracks.x[:, 0], b.tracks.x[:2, 0])
    assert np.array_equal(a.tracks.phase, b.tracks.phase[:2])


def test_training_scenes_never_show_what_is_held_out() -> None:
    shown = [
        actor
        for row in sample_scenes(5, 60, 15, change_probability=0.9, held_out=False).attributes
        for label in row
        for actor in label.actors
    ]
    assert shown and not any(is_held_out(actor) for actor in shown)
    free = sample_scenes(5, 60, 15, change_probability=0.9).attributes
    assert any(is_held_out(a) for row in free for label in row for a in label.actors)


def test_any_two_attributes_of_held_out_triples_are_seen_together() -> None:
    triples = [
        (s, c, m)
        for s in SHAPES
        for c in COLOURS
        for m in MOTIONS
        if is_held_out(ActorLabel(shape=s, colour=c, motion=m, size="big"))
    ]
    assert len(triples) == 22
    for pair in ((0, 1), (0, 2), (1, 2)):
        assert len({tuple(t[i] for i in pair) for t in triples}) == len(triples)
