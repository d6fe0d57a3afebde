"""The uniform piece of a camera's film that a chunk is made from."""

import numpy as np
import pytest

from onbeat.server.engine.input_track import InputTrack, StreamInput, motion_of
from onbeat.server.engine.messages import VideoInput


def track() -> InputTrack:
    return InputTrack(fps=20, chunk_frames=4, sample_rate=48_000)


def picture(level: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.full((2, 2, 3), level, np.uint8)


def levels(made: InputTrack, end: float) -> list[int]:
    clip = made.clip(end)
    assert clip is not None
    return [int(p[0, 0, 0]) for p in clip.pictures]


@pytest.mark.parametrize(("rate", "wanted"), [(60, 3), (40, 2), (20, 1)])
def test_pictures_are_taken_at_equal_distances(rate: int, wanted: int) -> None:
    made = track()
    for i in range(rate):
        made.see(10.0 + i / rate, picture(i))
        if i in (rate // 2, 7 * rate // 10):
            last = i
            assert levels(made, 10.0 + i / rate + 1e-6) == [last - wanted * k for k in (3, 2, 1, 0)]


def test_a_slow_camera_repeats_and_a_new_one_is_held_backwards() -> None:
    made = track()
    made.see(10.0, picture(1))
    assert levels(made, 10.05) == [1, 1, 1, 1]
    made.see(10.1, picture(2))
    assert levels(made, 10.15) == [1, 1, 2, 2]


def test_pictures_of_the_future_and_of_long_ago_are_not_taken() -> None:
    made = track()
    assert made.clip(10.0) is None
    made.see(10.0, picture(1))
    assert made.clip(9.9) is None
    assert made.clip(10.9) is not None
    assert made.clip(11.1) is None


def test_what_is_older_than_the_last_is_lost_and_memory_is_bounded() -> None:
    made = track()
    for i in range(1000):
        made.see(10.0 + i / 60, picture(i % 250))
        made.hear(10.0 + i / 60, np.zeros(800, np.int16))
    made.see(10.0, picture(255))
    assert len(made._pictures) <= 32 and len(made._sounds) < 200
    assert 255 not in levels(made, 10.0 + 999 / 60)


def test_sound_is_laid_where_it_was_taken() -> None:
    made = track()
    made.see(10.1, picture(1))
    for i in range(10):
        made.hear(10.0 + 0.02 * i, np.full(960, i + 1, np.int16))
    clip = made.clip(10.2)
    assert clip is not None and clip.sound is not None and len(clip.sound) == 9600
    assert clip.sound[480] == 1 and clip.sound[-480] == 10 and (clip.sound > 0).mean() > 0.99
    made.see(10.9, picture(1))
    silent = made.clip(10.9)
    assert silent is not None and silent.sound is None


def test_motion_lowers_the_strength_and_stillness_gives_it_back() -> None:
    given = StreamInput(track=track(), asked=VideoInput(motion_aware=True))
    still, moved = (picture(10),) * 4, (picture(10), picture(60), picture(10), picture(60))
    given.motion = motion_of(still, None)
    assert given.motion == 0.0 and given.strength(0.8) == pytest.approx(0.8)
    given.motion = motion_of(moved, None)
    assert given.motion == 1.0
    assert given.strength(0.8) == pytest.approx(0.9 * (0.8 - 0.1) + 0.1 * 0.8)
    given.motion = 0.0
    for _ in range(5):
        last = given.strength(0.8)
    assert last == pytest.approx(0.8, abs=1e-4)
    assert motion_of(still, picture(60)) == 1.0
    plain = StreamInput(track=track(), asked=VideoInput())
    plain.motion = 1.0
    assert plain.strength(0.8) == 0.8
