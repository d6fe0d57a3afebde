"""Colour conversion: known colours, float64 within half a level, exact in any batch."""

import numpy as np
import pytest
import torch

from onbeat.kernels.rgb_to_i420 import rgb_to_i420

MATRIX = np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]])


def noise(*batch: int, height: int = 6, width: int = 10) -> torch.Tensor:
    make = torch.Generator().manual_seed(5)
    return torch.randint(0, 256, (*batch, height, width, 3), generator=make).to(torch.uint8)


@pytest.mark.parametrize(
    ("colour", "yuv"),
    [
        ((0, 0, 0), (16, 128, 128)),
        ((255, 255, 255), (235, 128, 128)),
        ((255, 0, 0), (81, 90, 240)),
        ((0, 255, 0), (145, 54, 34)),
        ((0, 0, 255), (41, 240, 110)),
    ],
)
def test_known_colours(colour: tuple[int, ...], yuv: tuple[int, ...]) -> None:
    planes = rgb_to_i420(torch.tensor(colour, dtype=torch.uint8).expand(4, 4, 3))
    assert planes.flatten().tolist() == [yuv[0]] * 16 + [yuv[1]] * 4 + [yuv[2]] * 4


def test_agrees_with_float64() -> None:
    rgb = noise()
    planes = rgb_to_i420(rgb).flatten().double().numpy()
    colours = rgb.double().numpy() / 255
    quads = colours.reshape(3, 2, 5, 2, 3).mean((1, 3))
    expected = np.concatenate(
        [
            (colours @ MATRIX[0] + 16).ravel(),
            (quads @ MATRIX[1] + 128).ravel(),
            (quads @ MATRIX[2] + 128).ravel(),
        ]
    )
    assert np.abs(planes - expected).max() < 0.51


def test_any_batch_gives_the_same_bytes() -> None:
    frames = noise(2, 3)
    planes = rgb_to_i420(frames)
    assert planes.shape == (2, 3, 9, 10)
    assert torch.equal(planes[1, 2], rgb_to_i420(frames[1, 2]))


def test_odd_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="height 7; allowed: even"):
        rgb_to_i420(noise(height=7))
    with pytest.raises(ValueError, match=r"frames is torch.float32"):
        rgb_to_i420(noise().float())
