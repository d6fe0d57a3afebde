"""Pictures of any size, turn and pixel shape, fitted to one size."""

from fractions import Fraction

import av
import numpy as np
import pytest

from onbeat.webrtc.fitting import Fit, fit_picture

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def bars(width: int, height: int, *colours: tuple[int, int, int]) -> av.VideoFrame:
    """Upright bars of equal width, as YUV."""
    pixels = np.zeros((height, width, 3), np.uint8)
    for i, colour in enumerate(colours):
        pixels[:, i * width // len(colours) : (i + 1) * width // len(colours)] = colour
    return av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="yuv420p")


def near(pixel: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], colour: tuple[int, ...]) -> bool:
    return bool((np.abs(pixel.astype(int) - colour) < 40).all())


def fit(
    picture: av.VideoFrame, rotation: int = 0, aspect: Fraction = Fraction(1), rule: Fit = "cover"
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return fit_picture(
        picture, width=64, height=64, rotation=rotation, pixel_aspect=aspect, rule=rule
    )


@pytest.mark.parametrize("size", [(64, 64), (640, 480), (480, 640), (37, 91), (1921, 1081), (2, 2)])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("rule", ["cover", "contain"])
def test_whatever_comes_has_the_size_that_is_wanted(
    size: tuple[int, int], rotation: int, rule: Fit
) -> None:
    made = fit(bars(*size, RED), rotation, rule=rule)
    assert made.shape == (64, 64, 3) and made.flags["C_CONTIGUOUS"]
    assert near(made[32, 32], RED)


def test_cover_cuts_around_the_middle_and_contain_shows_all_on_black() -> None:
    wide = bars(192, 64, RED, GREEN, BLUE)
    cut, whole = fit(wide), fit(wide, rule="contain")
    assert near(cut[32, 3], GREEN) and near(cut[32, 60], GREEN) and near(cut[2, 32], GREEN)
    assert near(whole[32, 3], RED) and near(whole[32, 60], BLUE)
    assert near(whole[2, 32], (0, 0, 0)) and near(whole[61, 32], (0, 0, 0))


def test_it_is_turned_clockwise_until_it_stands() -> None:
    two = bars(64, 64, RED, BLUE)
    assert near(fit(two, 90)[5, 32], RED) and near(fit(two, 90)[60, 32], BLUE)
    assert near(fit(two, 180)[32, 5], BLUE)
    assert near(fit(two, 270)[5, 32], BLUE)


def test_pixels_are_made_square() -> None:
    """Half as wide as they are high: 128 x 64 stands for a square."""
    three = bars(128, 64, RED, GREEN, BLUE)
    made = fit(three, aspect=Fraction(1, 2))
    assert near(made[32, 3], RED) and near(made[32, 60], BLUE)


def test_an_extreme_shape_costs_no_memory_and_is_shown_whole() -> None:
    made = fit(bars(1920, 2, RED, GREEN))
    assert made.shape == (64, 64, 3) and near(made[0, 0], (0, 0, 0))
