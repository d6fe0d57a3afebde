"""Clips to train on: what a cut holds, that weights follow the picture, that seeds repeat."""

import pytest
import torch

from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.scenes import sample_scenes
from onbeat.models.toybox.text import NULL
from onbeat.models.toybox.video_codec import VideoCodec
from onbeat.samplers.distill import data
from onbeat.samplers.distill.data import ClipPool, Cut, sounding_frames, touched_tokens


def pool(cut: Cut, clips: int) -> ClipPool:
    torch.manual_seed(0)
    made = ClipPool(ToyboxConfig(), (VideoCodec().eval(), AudioCodec().eval()), cut, 3, 8)
    made.add(clips)
    return made


@pytest.fixture(scope="module")
def sequences() -> ClipPool:
    return pool(Cut(chunks=4, change_probability=1.0), 3)


def test_shapes_and_weights(sequences: ClipPool) -> None:
    clips = sequences.sample(torch.Generator().manual_seed(0), 5, 3)
    assert clips.audio.shape == (5, 3, 4, 24) and clips.video.shape == (5, 3, 16, 256)
    assert clips.text.shape == (5, 2, 16, 12)
    assert set(clips.video_weight.unique().tolist()) <= {1.0, 1.0 + data.OBJECT_WEIGHT}
    assert set(clips.audio_weight.unique().tolist()) <= {1.0, 1.0 + data.EVENT_WEIGHT}
    assert clips.change.min() >= 1 and clips.change.max() <= 3


def test_the_same_seed_cuts_the_same_clips(sequences: ClipPool) -> None:
    one, other = (sequences.sample(torch.Generator().manual_seed(7), 4, 2) for _ in range(2))
    assert torch.equal(one.video, other.video) and torch.equal(one.text, other.text)


def test_clips_are_a_function_of_their_number() -> None:
    cut = Cut(chunks=1, lead=1, tail=0, change_probability=0.0)
    one, other = pool(cut, 2), pool(cut, 2)
    g = torch.Generator
    a, b = (p.sample(g().manual_seed(0), 4, 1) for p in (one, other))
    assert torch.equal(a.video, b.video) and torch.equal(a.audio, b.audio)


def test_a_full_ring_replaces_its_oldest_clips() -> None:
    ring = pool(Cut(chunks=1, change_probability=0.0), 8)
    assert ring.size == 8
    ring.add(2)
    assert ring.size == 8 and ring.made == 10


def test_some_clips_lose_their_prompt(sequences: ClipPool) -> None:
    clips = sequences.sample(torch.Generator().manual_seed(1), 300, 1)
    share = float((clips.text[:, 0, 0, 0] == NULL).float().mean())
    assert 0.04 < share < 0.2


def test_touched_tokens_are_where_the_mask_is() -> None:
    mask = torch.zeros(1, 1, 128, 128)
    mask[0, 0, 40:50, 70:75] = 1.0
    assert touched_tokens(mask, 4)[0, 0].nonzero().flatten().tolist() == [6]


def test_events_mark_the_frame_in_which_they_begin() -> None:
    scenes = sample_scenes(5, 6, 10)
    marks = sounding_frames(scenes)
    assert marks.shape == (6, 40)
    for row, events in zip(marks, scenes.events, strict=True):
        assert row.nonzero().flatten().tolist() == sorted({int(e.time * 20) for e in events})
