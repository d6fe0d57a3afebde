"""When pictures were taken, encoded and sent; and which picture a packet's time stamp means."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.frames import LONGEST_SEND, MOST_PENDING, SETTLED_AFTER, FrameLog
from onbeat.webrtc.stamps import WHOLE, Stamps
from onbeat.webrtc.viewer import PacketTrack
from tests.webrtc.test_broadcast import Make, Stage


@pytest.fixture
async def staged(pool: EncoderPool) -> AsyncIterator[Stage]:
    stage = Stage(pool)
    yield stage
    stage.close()


def taken(log: FrameLog, pts: int, now: float) -> None:
    log.taken(pts, chunk=pts // 4, number=pts % 4, due=now, now=now)


def test_a_frame_is_told_of_once_and_with_its_slowest_viewer() -> None:
    log = FrameLog()
    taken(log, 0, 10.0)
    log.encoded(0, 10.01)
    log.encoded(0, 10.02)  # a second rendition
    log.sent(0, 10.03)
    assert log.take(10.1) == [], "a slower viewer may come"
    log.sent(0, 10.2)
    (frame,) = log.take(10.02 + SETTLED_AFTER)
    assert (frame.taken_at, frame.encoded_at, frame.sent_at) == (10.0, 10.02, 10.2)
    assert log.take(20.0) == []
    log.sent(0, 21.0)
    log.encoded(0, 21.0)
    assert log.take(30.0) == []


def test_what_reached_nobody_is_not_told_of() -> None:
    log = FrameLog()
    taken(log, 0, 10.0)
    log.lost(0)
    log.sent(0, 10.1)
    taken(log, 1, 10.0)  # never encoded
    assert log.take(30.0) == []


def test_a_frame_that_waits_to_be_sent_is_waited_for() -> None:
    """A stalled sender would look like a quick one otherwise."""
    log = FrameLog()
    for pts in (0, 1):
        taken(log, pts, 10.0)
        log.encoded(pts, 10.01)
    assert log.take(10.5, sending=True) == []
    log.sent(0, 10.9)
    (frame,) = log.take(11.0, sending=True)
    assert frame.sent_at == 10.9
    (lost,) = log.take(10.01 + LONGEST_SEND, sending=True)
    assert lost.pts == 1 and lost.sent_at == lost.encoded_at


def test_a_tap_alone_sends_nothing() -> None:
    log = FrameLog()
    taken(log, 0, 10.0)
    log.encoded(0, 10.01)
    (frame,) = log.take(11.0)
    assert frame.sent_at == frame.encoded_at


def test_the_log_is_bounded() -> None:
    log = FrameLog()
    for pts in range(3 * MOST_PENDING):
        taken(log, pts, 10.0)
        log.encoded(pts, 10.0)
    assert len(log.take(20.0)) == MOST_PENDING


async def test_a_broadcast_tells_of_each_picture_it_sent(staged: Stage, chunk: Make) -> None:
    viewer = staged.watch()
    await staged.rest()
    staged.broadcast.push(chunk(7, 1000.1))
    staged.broadcast.push(chunk(8, 1000.3))
    await staged.play(1000.1, 1000.5)
    assert viewer.video is not None and viewer.video.on_sent
    await staged.at(1001.0)
    frames = staged.broadcast.frames()
    assert [(f.chunk, f.number) for f in frames] == [(c, n) for c in (7, 8) for n in range(4)]
    assert [f.pts for f in frames] == [4500 * n for n in range(8)]
    assert all(f.due <= f.taken_at <= f.encoded_at <= f.sent_at for f in frames)
    assert len(frames) == staged.broadcast.stats().frames_sent
    assert staged.broadcast.frames() == []


async def test_a_slow_encoder_and_a_slow_viewer_show_in_their_own_times(
    staged: Stage, chunk: Make
) -> None:
    viewer = staged.watch()
    await staged.rest()
    staged.broadcast.push(chunk(0, 1000.0))
    clock = staged.clock
    (video,) = [lane for v in staged.broadcast._video.values() for lane in v.lanes()]
    encoder: Any = video._encoder
    encode = encoder.encode

    def slow(*arguments: Any) -> Any:
        clock.now += 0.08
        return encode(*arguments)

    encoder.encode = slow
    await staged.at(1000.0)
    encoder.encode = encode
    assert viewer.video is not None
    for stamp in (1000.1, 1000.15, 1001.0):
        await staged.at(stamp)
    first = staged.broadcast.frames()[0]
    assert first.encoded_at - first.taken_at >= 0.08
    assert first.sent_at - first.encoded_at < 0.08


class Sender:
    """What `Stamps` reads of one."""

    def __init__(self, stamp: int) -> None:
        self._RTCRtpSender__rtp_timestamp = stamp


def test_time_stamps_of_packets_lead_back_to_media_time() -> None:
    track = PacketTrack("video", 4, lambda: None)
    origin = WHOLE - 10_000
    stamps = Stamps(Sender((origin + 4500) % WHOLE), track)  # type: ignore[arg-type]
    assert stamps.media_pts(77) is None
    (told,) = track.on_sent
    told(4500)
    assert stamps.media_pts((origin + 4500) % WHOLE) == 4500
    assert stamps.media_pts((origin + 18_000) % WHOLE) == 18_000, "over the end of 32 bits"
    told(WHOLE + 4500)  # half a day later
    assert stamps.media_pts((origin + 9000) % WHOLE) == WHOLE + 9000
    track.stop()


async def test_time_stamps_of_a_real_connection(broadcast: Any, source: Any, receiver: Any) -> None:
    viewer = receiver()
    peer = await viewer.join(broadcast)
    await viewer.until(lambda: len({p.timestamp for p in viewer.packets["video"]}) > 8)
    await viewer.until(lambda: len(broadcast.frames()) > 0 or broadcast.stats().frames_sent > 12)
    stamps = sorted({peer.stamps.media_pts(p.timestamp) for p in viewer.packets["video"]})
    assert all(stamp is not None and stamp >= 0 for stamp in stamps)
    assert any(stamp % 4500 == 0 for stamp in stamps)
    await viewer.until(lambda: any(f.pts in stamps for f in broadcast.frames()))
