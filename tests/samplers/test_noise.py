"""Noise keys: one per place, never two places with one, and numbers that fit."""

import itertools

import pytest
import torch

from onbeat.samplers.noise import COMMIT, INITIAL, draw, noise_keys, renoise_step


def test_every_place_has_noise_of_its_own() -> None:
    values = (0, 1, 2**16)
    steps = (INITIAL, renoise_step(0), renoise_step(1), COMMIT)
    places = list(itertools.product(values, values, values, (0, 1, 2), steps))
    keys = torch.cat([noise_keys([a], [b], [c], m, [s]) for a, b, c, m, s in places])
    first = draw(keys, (2, 2)).view(len(places), -1)
    assert len(torch.unique(first, dim=0)) == len(places)


def test_step_ids_do_not_collide() -> None:
    assert len({INITIAL, COMMIT, *(renoise_step(i) for i in range(100))}) == 102


def test_shape_and_independence_of_the_batch() -> None:
    keys = noise_keys([1, 2, 3], [4, 4, 4], [0, 1, 2], 1, [0, 1, 2])
    z = draw(keys, (16, 96))
    assert z.shape == (3, 16, 96) and z.dtype == torch.float32
    assert torch.equal(draw(keys[1:2], (16, 96))[0], z[1])


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("seed", (-1, 0, 0, 0, 0)),
        ("seed", (2**63, 0, 0, 0, 0)),
        ("stream", (0, 2**32, 0, 0, 0)),
        ("chunk", (0, 0, 2**32, 0, 0)),
        ("modality", (0, 0, 0, 256, 0)),
        ("step", (0, 0, 0, 0, 2**24)),
    ],
)
def test_numbers_that_do_not_fit_are_named(name: str, numbers: tuple[int, ...]) -> None:
    seed, stream, chunk, modality, step = numbers
    with pytest.raises(ValueError, match=rf"{name} is -?\d+; allowed: 0 to 2\^"):
        noise_keys([seed], [stream], [chunk], modality, [step])
