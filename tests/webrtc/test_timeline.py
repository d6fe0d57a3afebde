"""The media clock, run by hand: what leaves when, what is dropped, what silence fills."""

from collections.abc import Callable

import numpy as np
import pytest

from onbeat.webrtc.media import MediaChunk
from onbeat.webrtc.sound import SoundTrack
from onbeat.webrtc.timeline import MARGIN, Timeline

Make = Callable[..., MediaChunk]
T0 = 1000.0


def start(chunk: Make, count: int = 1) -> Timeline:
    timeline = Timeline(24_000)
    for index in range(count):
        timeline.push(chunk(index, T0 + 0.2 * index), T0 - 0.1)
    return timeline


def test_frames_leave_at_their_instant_with_media_time_as_stamp(chunk: Make) -> None:
    timeline = start(chunk, 2)
    assert timeline.next_due() == pytest.approx(T0)
    assert timeline.take(T0 - 0.001).frame is None
    stamps = []
    for number in range(8):
        frame = timeline.take(T0 + 0.05 * number + 0.001).frame
        assert frame is not None and frame.due == pytest.approx(T0 + 0.05 * number)
        stamps.append(frame.pts)
    assert stamps == [4500 * number for number in range(8)]


def test_after_a_stall_only_the_newest_due_frame_leaves(chunk: Make) -> None:
    taken = start(chunk, 2).take(T0 + 0.23)
    assert taken.frame is not None and taken.frame.pts == 4 * 4500
    assert (taken.due, taken.late, taken.skipped) == (5, 4, 0)


def test_a_frame_a_whole_period_late_is_dropped(chunk: Make) -> None:
    taken = start(chunk).take(T0 + 0.201)
    assert taken.frame is None and (taken.due, taken.late) == (4, 4)


def test_a_missing_chunk_is_skipped_in_media_time_for_both(chunk: Make) -> None:
    timeline = start(chunk)
    timeline.push(chunk(2, T0 + 0.4), T0)
    stamps, skipped, silent = [], 0, 0.0
    for step in range(60):
        now = T0 + 0.01 * step + 0.001
        taken = timeline.take(now)
        skipped += taken.skipped
        stamps += [taken.frame.pts] if taken.frame is not None else []
        sounds, dropped = timeline.take_sound(now)
        assert dropped == 0
        silent += sum(sound.silent for sound in sounds)
    assert stamps == [4500 * number for number in (0, 1, 2, 3, 8, 9, 10, 11)]
    assert skipped == 4 and silent == pytest.approx(0.2)


def test_sound_and_picture_keep_one_origin_over_an_hour_of_drops(chunk: Make) -> None:
    timeline = Timeline(24_000)
    worst = 0.0
    for index in range(0, 18_000, 15):
        at = T0 + 0.2 * index
        timeline.push(chunk(index, at), at - 0.05)
        frame = timeline.take(at + 0.001).frame
        sounds, _ = timeline.take_sound(at + 0.001)
        assert frame is not None
        worst = max(worst, abs(frame.pts / 90_000 - sounds[-1].pts / 48_000))
        timeline.discard(at + 2.95)
    assert worst < 0.021


def test_the_clock_moves_for_chunks_that_are_all_late_instead_of_a_burst(chunk: Make) -> None:
    timeline = start(chunk)
    now = T0 + 1.0
    timeline.push(chunk(1, T0 + 0.2), now)
    assert timeline.reanchored == 0 and timeline.take(now).frame is None
    timeline.push(chunk(2, T0 + 0.4), now)
    assert timeline.reanchored == 1
    timeline.push(chunk(3, T0 + 0.6), now)
    leaving = [timeline.take(now + MARGIN + 0.05 * n + 0.001).frame for n in range(8)]
    dues = [frame.due for frame in leaving if frame is not None]
    assert dues == pytest.approx([now + MARGIN + 0.05 * n for n in range(8)])
    timeline.push(chunk(9, now + 5.0), now + 4.0)
    assert timeline.offset == 0.0, "a chunk due after all that was played needs no offset"


def test_chunks_of_the_past_and_of_the_far_future_are_ignored(chunk: Make) -> None:
    timeline = start(chunk, 3)
    timeline.push(chunk(1, T0 + 0.2), T0)
    timeline.push(chunk(3, T0 + 500), T0)
    frames = []
    for step in range(100):
        frame = timeline.take(T0 + 0.01 * step).frame
        frames += [frame.pts] if frame else []
    assert frames == [4500 * number for number in range(12)]


def test_unwatched_media_is_forgotten_but_the_newest_picture_is_kept(chunk: Make) -> None:
    timeline = start(chunk, 5)
    last = timeline.discard(T0 + 0.32)
    assert last is not None and last.pts == 6 * 4500
    assert timeline.next_due() == pytest.approx(T0 + 0.34)


def test_a_frame_rate_may_change_between_chunks(chunk: Make) -> None:
    timeline = start(chunk)
    timeline.push(chunk(1, T0 + 0.2, frames=2, fps=10), T0)
    timeline.take(T0 + 0.2)
    frame = timeline.take(T0 + 0.31).frame
    assert frame is not None and frame.pts == 27_000 and frame.fps == 10


def test_sound_is_cut_in_20_ms_and_loses_no_sample() -> None:
    track = SoundTrack(24_000)
    samples = np.arange(1, 24_001, dtype=np.int16)
    for at in range(0, 24_000, 2_500):  # pieces that are no multiple of 480
        track.push(samples[at : at + 2_500], at / 24_000 + 0.001)  # within the snap
    out = [track.take() for _ in range(50)]
    assert [sound.pts for sound in out] == [960 * n for n in range(50)]
    assert np.array_equal(np.concatenate([sound.samples for sound in out]), samples)
    assert sum(sound.silent for sound in out) == 0


def test_a_hole_in_the_sound_is_silent_and_the_rest_stays_in_place() -> None:
    track = SoundTrack(48_000)
    track.push(np.full(960, 7, np.int16), 0.0)
    track.push(np.full(960, 9, np.int16), 0.03)
    first, second, third = (track.take() for _ in range(3))
    assert first.samples.min() == 7 and second.silent == pytest.approx(0.01)
    assert not second.samples[:480].any() and second.samples[480:].min() == 9
    assert third.samples[:480].min() == 9 and third.silent == pytest.approx(0.01)


def test_overlapping_sound_is_trimmed() -> None:
    track = SoundTrack(48_000)
    track.push(np.full(960, 1, np.int16), 0.0)
    track.push(np.full(960, 2, np.int16), 0.01)
    assert track.take().samples.tolist() == [1] * 960
    assert track.take().samples.tolist() == [2] * 480 + [0] * 480


def test_very_late_sound_is_dropped_not_sent_in_a_burst(chunk: Make) -> None:
    timeline = start(chunk, 5)
    sounds, dropped = timeline.take_sound(T0 + 0.5)
    assert 1 <= len(sounds) <= 2 and dropped == pytest.approx(0.48)


def test_a_stream_without_sound_is_silent_but_not_short_of_it() -> None:
    assert SoundTrack(48_000).take().silent == 0


def test_odd_sample_rates_are_refused_with_the_allowed_ones() -> None:
    with pytest.raises(ValueError, match="44100.*48000"):
        SoundTrack(44_100)
