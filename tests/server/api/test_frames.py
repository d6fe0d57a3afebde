"""The record of a frame: stages that follow one another, what viewers add, what is not believed."""

import time

import pytest

from onbeat.server.api.frames import (
    ALL_STAGES,
    KEPT_CHUNKS,
    KEPT_FRAMES,
    LONGEST,
    MOST_REPORTED,
    FrameRecord,
    SeenFrame,
    SessionFrames,
    seen_frames,
)
from onbeat.server.engine.messages import ChunkReady, StageTimes
from onbeat.webrtc.frames import FrameTimes

STEP = 18_000


def chunk(number: int, at: float) -> ChunkReady:
    """Released at `at`, ready 28 ms later, due 200 ms after that."""
    times = {"queue": 0.004, "denoise": 0.015, "commit": 0.003, "decode": 0.005, "convert": 0.001}
    return ChunkReady(
        stream_id="s",
        chunk=number,
        revision=0,
        slot=0,
        frames=4,
        frame_bytes=1,
        samples=1,
        latent_bytes=0,
        steps=2,
        playout_at=at + 0.228,
        ready_at=at + 0.028,
        on_time=True,
        stages=StageTimes(released_at=at, **times),
        last=False,
    )


def sent(number: int, at: float, *, frame: int = 0) -> FrameTimes:
    """Taken when due, encoded in 3 ms, sent in 1 ms."""
    due = at + 0.228 + 0.05 * frame
    return FrameTimes(
        chunk=number,
        number=frame,
        pts=STEP * number + 4500 * frame,
        due=due,
        taken_at=due,
        encoded_at=due + 0.003,
        sent_at=due + 0.004,
    )


def one() -> tuple[SessionFrames, FrameRecord]:
    frames = SessionFrames()
    frames.arrived(chunk(0, 100.0), 100.03)
    (record,) = frames.sent([sent(0, 100.0)])
    return frames, record


def test_the_stages_of_a_frame_sum_to_its_latency() -> None:
    frames, record = one()
    assert record.total == pytest.approx(0.232) and not record.seen
    assert sum(record.stages.values()) == pytest.approx(record.total, abs=1e-9)
    seen = frames.viewed(0, 0.02, SeenFrame(rtp_timestamp=0, buffer=0.05, shown=0.01))
    assert seen is not None and seen.seen and tuple(seen.stages) == ALL_STAGES
    assert seen.total == pytest.approx(0.232 + 0.08)
    assert sum(seen.stages.values()) == pytest.approx(seen.total, abs=1e-9)
    assert frames.by_chunk(0) == [seen]


def test_several_viewers_of_a_frame_each_have_their_own_end() -> None:
    frames, _ = one()
    near = frames.viewed(0, 0.001, SeenFrame(rtp_timestamp=0, buffer=0.02, shown=0.0))
    far = frames.viewed(0, 0.2, SeenFrame(rtp_timestamp=0, buffer=0.1, shown=0.0))
    assert near is not None and far is not None
    assert (near.stages["network"], far.stages["network"]) == (0.001, 0.2)
    assert far.stages["encode"] == near.stages["encode"]


def test_frames_of_chunks_that_are_gone_have_no_record() -> None:
    frames = SessionFrames()
    for number in range(KEPT_CHUNKS + 1):
        frames.arrived(chunk(number, 100.0 + number), 100.03 + number)
    assert frames.sent([sent(0, 100.0)]) == []
    assert frames.viewed(0, 0.0, SeenFrame(rtp_timestamp=0, buffer=0.0, shown=0.0)) is None


def test_a_frame_that_is_seen_before_its_record_is_made_is_matched_then() -> None:
    frames = SessionFrames()
    frames.arrived(chunk(0, 100.0), 100.03)
    for rtp, buffer in ((0, 0.02), (0, 0.05), (99, 0.01)):
        early = SeenFrame(rtp_timestamp=rtp, buffer=buffer, shown=0.01)
        assert frames.viewed(rtp, 0.0, early) is None
    frames.sent([sent(0, 100.0)])
    matched = frames.take_matched()
    assert [record.stages["buffer"] for record in matched] == [0.02, 0.05]
    assert frames.take_matched() == []
    for number in range(3 * KEPT_FRAMES):
        frames.viewed(1000 + number, 0.0, SeenFrame(rtp_timestamp=0, buffer=0.0, shown=0.0))
    assert len(frames._early) <= KEPT_FRAMES


def test_intervals_are_between_frames_and_not_over_pauses() -> None:
    frames = SessionFrames()
    for number, at in ((0, 100.0), (1, 100.2), (2, 110.0)):
        frames.arrived(chunk(number, at), at + 0.03)
    records = frames.sent([sent(0, 100.0), sent(1, 100.2), sent(2, 110.0)])
    assert [r.interval for r in records] == [None, pytest.approx(0.2), None]


def test_no_stage_is_negative_when_the_wall_clock_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in a record comes from the wall clock."""
    for step in (-3600.0, 3600.0):
        monkeypatch.setattr(time, "time", lambda step=step: 1.8e9 + step)
        frames, record = one()
        given = {"frames": [[0, 5.0, 2.0], [0, -3.6e6, 2.0], [0, 1.0, 3.6e6]]}
        seen = [frames.viewed(f.rtp_timestamp, 0.0, f) for f in seen_frames(given, 500.0)]
        assert len(seen) == 1
        for each in (record, *seen):
            assert each is not None and min(each.stages.values()) >= 0


@pytest.mark.parametrize(
    "entry",
    [
        [1, 2],
        [1, 2, "3"],
        [1, 2, -0.1],
        [1, -2, 3],
        [-1, 2, 3],
        [2**32, 2, 3],
        [1, 2, 1e3 * LONGEST + 1],
        [1, float("nan"), 3],
        [1, 2, 3, -1],
        [1, 2, 3, 1e3 * LONGEST + 1],
        [1, 2, 3, 4, 5],
        "abc",
        None,
        {"a": 1},
    ],
)
def test_what_a_viewer_makes_up_is_left_out(entry: object) -> None:
    found = seen_frames({"frames": [entry, [7, 5, 2], [8, 5, 2, 1]]}, 500.0)
    assert [frame.rtp_timestamp for frame in found] == [7, 8]


def test_a_report_is_bounded() -> None:
    assert seen_frames({}, 0.0) == [] and seen_frames({"frames": 3}, 0.0) == []
    many = [[n, 1, 1] for n in range(10 * MOST_REPORTED)]
    assert len(seen_frames({"frames": many}, 0.0)) == MOST_REPORTED


def test_a_frame_whose_age_is_told_has_its_own_way(now: float = 100.232 + 0.6) -> None:
    """It left at 100.232; its report came 600 ms later, 300 ms of which it had been there."""
    frames, record = one()
    assert record.sent_at == pytest.approx(100.232)
    (frame,) = seen_frames({"frames": [[0, 40, 10, 300]]}, now)
    for one_way in (None, 0.002):
        seen = frames.viewed(0, one_way, frame)
        assert seen is not None and seen.stages["network"] == pytest.approx(0.15)
        assert sum(seen.stages.values()) == pytest.approx(seen.total, abs=1e-9)
    (early,) = seen_frames({"frames": [[0, 40, 10, 700]]}, now)
    before = frames.viewed(0, None, early)
    assert before is not None and before.stages["network"] == 0, "clocks of a browser are coarse"


def test_of_a_frame_without_age_or_round_trip_nothing_is_known() -> None:
    frames, _ = one()
    (frame,) = seen_frames({"frames": [[0, 40, 10]]}, 200.0)
    assert frames.viewed(0, None, frame) is None
    later = SessionFrames()
    later.arrived(chunk(0, 100.0), 100.03)
    for each in (frame, seen_frames({"frames": [[0, 40, 10, 300]]}, 100.832)[0]):
        assert later.viewed(0, None, each) is None, "there is no record yet"
    later.sent([sent(0, 100.0)])
    assert [r.stages["network"] for r in later.take_matched()] == [pytest.approx(0.15)]
