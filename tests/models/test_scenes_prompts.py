"""Prompts: what is written can be read back, and any text can be read."""

import numpy as np
import pytest

from onbeat.models.toybox.concepts import COLOURS, MOTIONS, SHAPES, ActorLabel, SceneLabel
from onbeat.models.toybox.prompts import VOCABULARY, make_prompt, recognise, words_of
from onbeat.models.toybox.scenes import sample_scenes

LABEL = SceneLabel(
    background="sea",
    actors=(ActorLabel(shape="ball", colour="red", motion="bounce", size="big"),),
)


def test_prompts_say_nothing_untrue() -> None:
    batch = sample_scenes(1, 300, 1, one_object=True)
    for prompts, labels in zip(batch.prompts, batch.attributes, strict=True):
        label = labels[0]
        actor = label.actors[0]
        true = {label.background, actor.shape, actor.colour, actor.motion, actor.size}
        assert set(recognise(prompts[0])) <= true, prompts[0]


def test_most_prompts_say_all_that_matters() -> None:
    rng = np.random.default_rng(0)
    want = {"sea", "ball", "red", "bounce"}
    full = [want <= set(recognise(make_prompt(rng, LABEL))) for _ in range(400)]
    assert 0.8 < np.mean(full) < 0.95


def test_wording_varies() -> None:
    rng = np.random.default_rng(0)
    assert len({make_prompt(rng, LABEL) for _ in range(200)}) > 150


def test_every_word_of_a_prompt_is_in_the_vocabulary() -> None:
    prompts = [row[0] for row in sample_scenes(2, 300, 1).prompts]
    assert {w for p in prompts for w in words_of(p)} <= set(VOCABULARY)
    assert list(VOCABULARY) == sorted(set(VOCABULARY))


@pytest.mark.parametrize(
    ("text", "concepts"),
    [
        ("A RED Ball, bouncing over the sea!", ("red", "ball", "bounce", "sea")),
        ("sunset; glowing blue ring floats", ("sunset", "blue", "ring", "float")),
        ("the night sky", ("stars",)),
        ("\U0001f534 \U0001f30a", ("red", "ball", "sea")),
        ("r\u00e9d b\u00e2ll", ("red", "ball")),
        ("quantum economics", ()),
        ("", ()),
        ("   \n\t", ()),
        ("\U0001f98a\U0001f98a", ()),
    ],
)
def test_recognise(text: str, concepts: tuple[str, ...]) -> None:
    assert recognise(text) == concepts


def test_recognise_takes_long_text() -> None:
    assert recognise("lorem ipsum " * 2000 + "green star") == ("green", "star")


def test_plain_names_are_recognised() -> None:
    for name in (*SHAPES, *COLOURS, *MOTIONS):
        assert recognise(name) == (name,)
