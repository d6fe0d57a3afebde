"""Offline generation: seeds repeat, rows do not disturb each other, pages wrap around."""

import torch

from onbeat.models.toybox.model import Toybox
from onbeat.samplers.distill.generate import generate, generate_many, page_table

MODEL = Toybox.random(1)


def test_pages_fill_from_the_right_and_wrap() -> None:
    spec = MODEL.spec
    assert (page_table(spec, 1, 0)[0, 1:] == -1).all()
    assert page_table(spec, 2, 2)[1].tolist()[-2:] == [15, 16]
    table = page_table(spec, 1, 14)[0].tolist()
    assert table[0] == 0 and table[1:] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 1]


def test_a_clip_is_the_same_alone_and_beside_another() -> None:
    texts = ["a red ball over the sea", "a blue star in the snow"]
    frames, audio = generate_many(MODEL, lambda _: texts, [7, 8], 2, 2)
    assert frames.shape == (2, 8, 128, 128, 3) and audio.shape == (2, 19_200)
    alone = generate(MODEL, texts[1], 8, 2, 2)
    again, _ = generate_many(MODEL, lambda _: texts[1:], [8], 2, 2)
    assert torch.equal(alone[0], again[0])
    other = generate(MODEL, texts[1], 9, 2, 2)
    assert not torch.equal(alone[0], other[0])


def test_a_new_prompt_acts_from_its_chunk_on() -> None:
    same = generate_many(MODEL, lambda c: ["a red ball"], [7], 3, 1)[0]
    changed = generate_many(MODEL, lambda c: ["a red ball" if c < 2 else "snow"], [7], 3, 1)[0]
    assert torch.equal(same[:, :8], changed[:, :8])
    assert not torch.equal(same[:, 8:], changed[:, 8:])
