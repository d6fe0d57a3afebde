"""The text encoder: any prompt has slots; unknown words differ, and are read by their letters."""

import pytest
import torch
from torch import Tensor

from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.text import NULL, PAD, TextEncoder, tokenise

CONFIG = ToyboxConfig()


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    torch.manual_seed(0)
    return TextEncoder(CONFIG).eval().requires_grad_(False)


def rows(prompt: str, spelled: int = 0) -> Tensor:
    return tokenise(prompt, CONFIG.text_slots, CONFIG.trigram_buckets, spelled)


@pytest.mark.parametrize("prompt", ["", "   ", "!?", "a red ball", "x" * 10_000, "word " * 99])
def test_any_prompt_fills_the_same_slots(encoder: TextEncoder, prompt: str) -> None:
    slots, pooled = encoder(rows(prompt)[None])
    assert slots.shape == (1, CONFIG.prefix_tokens, CONFIG.width)
    assert pooled.shape == (1, CONFIG.width)
    assert slots.isfinite().all() and pooled.isfinite().all()


def test_an_empty_prompt_is_a_prompt_of_its_own() -> None:
    assert rows("")[0, 0] == NULL
    assert (rows("")[1:] == PAD).all()
    assert NULL not in rows("a red ball")


def test_a_known_word_is_one_row_and_an_unknown_one_its_letters() -> None:
    assert (rows("red")[0] != PAD).sum() == 1
    assert (rows("zebra")[0] != PAD).sum() == 5
    assert torch.equal(rows("RED"), rows("red"))
    assert not torch.equal(rows("zebra"), rows("zebro"))


def test_spelling_a_word_reads_its_letters() -> None:
    assert torch.equal(rows("a red ball", spelled=0b010)[0], rows("a red ball")[0])
    assert (rows("a red ball", spelled=0b010)[1] != PAD).sum() == 3


def test_rows_that_serving_made_first_can_be_trained_on() -> None:
    encoder = TextEncoder(ToyboxConfig())
    with torch.inference_mode():
        rows("a prompt of this test alone")
    slots, _ = encoder(rows("a prompt of this test alone")[None])
    slots.sum().backward()
    assert encoder.table.grad is not None


def test_order_of_words_matters(encoder: TextEncoder) -> None:
    one, _ = encoder(rows("red ball blue square")[None])
    other, _ = encoder(rows("blue ball red square")[None])
    assert not torch.allclose(one, other)
