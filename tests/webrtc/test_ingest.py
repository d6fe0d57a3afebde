"""Media in: pictures and sound of a publisher reach the sink, in bounds, and end cleanly."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from aiortc.rtp import RtcpSenderInfo, RtcpSrPacket
from av.video.frame import PictureType

from onbeat.webrtc.assembly import EncodedFrame
from onbeat.webrtc.decoding import WAITING, Decoded, DecoderThread
from onbeat.webrtc.ingest import StreamClock
from onbeat.webrtc.peer import answer_offer
from onbeat.webrtc.settings import PeerSettings
from tests.webrtc.census import census
from tests.webrtc.publishers import Pictures, Publisher, Sink, Tone, until

LEVELS = (40, 100, 160, 220)


def level(number: int) -> int:
    return LEVELS[number // 5 % len(LEVELS)]


@pytest.fixture
async def publisher() -> AsyncIterator[Callable[..., Publisher]]:
    """Makes publishers, and closes them and their peers afterwards."""
    made: list[Publisher] = []

    def make(*tracks: Any, codec: str = "VP8", **more: Any) -> Publisher:
        made.append(Publisher(list(tracks), codec, **more))
        return made[-1]

    yield make
    await asyncio.gather(*(p.pc.close() for p in made))
    await asyncio.gather(*(p.peer.close() for p in made if p.peer is not None))


@pytest.mark.parametrize("codec", ["VP8", "H264"])
async def test_pictures_and_sound_arrive_as_sent(
    broadcast: Any, publisher: Any, codec: str
) -> None:
    sink = Sink()
    peer = await publisher(Tone(), Pictures(level, (96, 64), 25), codec=codec).publish(
        broadcast, sink
    )
    await until(lambda: len(sink.frames) > 30 and len(sink.sounds) > 30)
    assert sink.events == ["started"]
    first = sink.frames[0]
    assert (first.picture.width, first.picture.height) == (96, 64)
    assert first.rotation == 0 and first.pixel_aspect == 1
    greys = [round(float(f.picture.to_ndarray(format="gray").mean())) for f in sink.frames]
    assert all(min(abs(grey - each) for each in LEVELS) < 12 for grey in greys[5:])
    assert len({min(LEVELS, key=lambda each: abs(grey - each)) for grey in greys}) == len(LEVELS)
    steps = np.diff([f.media_time for f in sink.frames])
    assert (steps > 0).all() and np.isclose(np.round(25 * steps), 25 * steps, atol=0.01).all()
    sound = np.concatenate([s.samples for s in sink.sounds[10:30]])
    assert sound.shape[1] == 2 and sound.dtype == np.int16
    spectrum = np.abs(np.fft.rfft(sound[:, 0].astype(float)))
    peak = np.fft.rfftfreq(len(sound), 1 / 48_000)[spectrum.argmax()]
    assert abs(peak - 440) < 10
    assert peer.stats()["input"]["size"] == (96, 64)
    assert "a=recvonly" in peer.answer and "sendonly" not in peer.answer
    assert broadcast.stats().viewers == 0, "a publisher is no viewer"


async def test_a_publisher_that_leaves_ends_the_input(broadcast: Any, publisher: Any) -> None:
    sink = Sink()
    client = publisher(Pictures(level, (64, 64), 25))
    peer = await client.publish(broadcast, sink)
    await until(lambda: sink.frames)
    await client.pc.close()
    await until(peer.closed.is_set)
    assert sink.events[0] == "started" and sink.events[1].startswith("ended: connection")
    assert len(sink.events) == 2


async def test_a_publisher_that_vanishes_is_noticed(broadcast: Any, publisher: Any) -> None:
    sink = Sink()
    client = publisher(Pictures(level, (64, 64), 25))
    peer = await client.publish(broadcast, sink, PeerSettings(silence_deadline=0.6))
    await until(lambda: sink.frames)

    async def nothing(data: bytes) -> None:
        """As if the process were gone, though its socket still answers the ICE checks."""

    for sender in client.pc.getSenders():
        sender.transport._send_rtp = nothing
    await until(peer.closed.is_set)
    assert sink.events == ["started", "ended: publisher silent"]


async def test_the_end_of_the_session_ends_its_publisher(broadcast: Any, publisher: Any) -> None:
    sink = Sink()
    peer = await publisher(Pictures(level, (64, 64), 25)).publish(broadcast, sink)
    await until(lambda: sink.frames)
    broadcast.close()
    await until(peer.closed.is_set)
    assert sink.events[-1] == "ended: broadcast ended"


async def test_a_publisher_that_never_connects_is_not_told_of(
    broadcast: Any, publisher: Any
) -> None:
    sink = Sink()
    settings = PeerSettings(connect_deadline=0.3)
    client = publisher(Pictures(level, (64, 64), 25))
    peer = await answer_offer(
        await client.offer(), broadcast, settings=settings, sink=sink, role="publish"
    )
    await until(peer.closed.is_set)
    assert sink.events == []


async def test_duplex_sends_and_receives_over_one_connection(
    broadcast: Any, source: Any, publisher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink()
    client = publisher(Tone(), Pictures(level, (64, 48), 25), receives=True)
    peer = await client.publish(broadcast, sink, role="duplex")
    got: list[object] = []

    async def watch(track: Any) -> None:
        got.append(await track.recv())

    watching = [asyncio.create_task(watch(r.track)) for r in client.pc.getReceivers()]
    await until(lambda: len(sink.frames) > 3 and len(sink.sounds) > 3 and len(got) == 2)
    await asyncio.gather(*watching)
    assert "a=sendrecv" in peer.answer and broadcast.stats().viewers == 1


async def test_duplex_without_a_place_for_input_only_views(broadcast: Any, publisher: Any) -> None:
    client = publisher(Pictures(level, (64, 48), 25), receives=True)
    peer = await answer_offer(await client.offer(), broadcast, role="duplex")
    assert "a=sendonly" in peer.answer and "sendrecv" not in peer.answer
    await peer.close()


async def test_publishers_leave_nothing_behind(broadcast: Any, publisher: Any) -> None:
    async def cycle() -> None:
        client, sink = publisher(Tone(), Pictures(level, (64, 64), 25)), Sink()
        peer = await client.publish(broadcast, sink)
        await until(lambda: sink.frames)
        await peer.close()
        await client.pc.close()

    await cycle()
    await asyncio.sleep(0.2)
    before = census()
    for _ in range(8):
        await cycle()
    await until(lambda: all(n <= b for n, b in zip(census(), before, strict=True)))


# ---- the decoder's thread ------------------------------------------------------------------------


class Decoding:
    """A decoder of VP8, frames for it, and what came out of it."""

    def __init__(self) -> None:
        self.made: list[Decoded] = []
        self.lost = 0
        self.thread = DecoderThread("video", {96: "VP8"}, self.made.append, self._lose)
        self._encoder: Any = av.CodecContext.create("libvpx", "w")
        self._encoder.width = self._encoder.height = 64
        self._encoder.pix_fmt, self._encoder.time_base = "yuv420p", Fraction(1, 25)
        self._encoder.options = {"deadline": "realtime", "lag-in-frames": "0"}
        self._number = 0

    def _lose(self) -> None:
        self.lost += 1

    def frame(self, *, key: bool = False, after_gap: bool = False) -> EncodedFrame:
        picture = av.VideoFrame.from_ndarray(
            np.full((64, 64, 3), 10 + 5 * self._number, np.uint8), format="rgb24"
        ).reformat(format="yuv420p")
        picture.pts, self._number = self._number, self._number + 1
        picture.pict_type = PictureType.I if key else PictureType.NONE
        data = b"".join(bytes(packet) for packet in self._encoder.encode(picture))
        return EncodedFrame(
            data=data,
            timestamp=3600 * self._number,
            payload_type=96,
            arrived_at=float(self._number),
            after_gap=after_gap,
        )


@pytest.fixture
async def decoding() -> AsyncIterator[Decoding]:
    made = Decoding()
    yield made
    made.thread.close()


async def test_after_a_gap_only_a_key_frame_is_shown(decoding: Decoding) -> None:
    for frame in (decoding.frame(), decoding.frame(), decoding.frame(after_gap=True)):
        decoding.thread.put(frame)
    decoding.thread.put(decoding.frame())
    await until(lambda: decoding.lost == 2)
    decoding.thread.put(decoding.frame(key=True))
    await until(lambda: len(decoding.made) == 3)
    assert [made.arrived_at for made in decoding.made] == [1, 2, 5]


async def test_what_cannot_be_decoded_waits_for_a_key_frame(decoding: Decoding) -> None:
    decoding.thread.put(decoding.frame())
    broken = decoding.frame()
    decoding.thread.put(replace(broken, data=b"\x00\xff\xff\xff"))
    decoding.thread.put(decoding.frame())
    await until(lambda: decoding.lost == 2)
    decoding.thread.put(decoding.frame(key=True))
    await until(lambda: [made.arrived_at for made in decoding.made] == [1, 4])
    assert decoding.thread.failed == 1


async def test_pictures_that_wait_too_long_are_given_up_to_the_next_key_frame(
    decoding: Decoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread is held up in its first picture while more come than may wait."""
    held, decode = threading.Event(), decoding.thread._decode

    def slow(frame: EncodedFrame) -> None:
        held.wait(20)
        decode(frame)

    monkeypatch.setattr(decoding.thread, "_decode", slow)
    decoding.thread.put(decoding.frame())
    await until(lambda: not decoding.thread._waiting)
    for _ in range(WAITING["video"] + 3):
        decoding.thread.put(decoding.frame())
        assert len(decoding.thread._waiting) <= WAITING["video"]
    held.set()
    await until(lambda: decoding.lost == 3)
    decoding.thread.put(decoding.frame(key=True))
    await until(lambda: len(decoding.made) == 2)
    assert decoding.thread.dropped == WAITING["video"] + 3


async def test_a_closed_decoder_hands_nothing_out_and_ends(decoding: Decoding) -> None:
    decoding.thread.put(decoding.frame())
    await until(lambda: decoding.made)
    decoding.thread.close()
    decoding.thread.close()
    decoding.thread.put(decoding.frame())
    await until(lambda: not decoding.thread._thread.is_alive())
    assert len(decoding.made) == 1


# ---- the clock -----------------------------------------------------------------------------------


def test_time_stamps_wrap_and_start_where_they_arrive() -> None:
    clock = StreamClock(90_000)
    near_end = 2**32 - 4500
    assert clock.seconds(near_end, 0.25) == 0.25
    assert clock.seconds(0, 99.0) == pytest.approx(0.3)
    assert clock.seconds(near_end + 2250, 99.0) == pytest.approx(0.275), "reordered"
    assert clock.seconds(4500, 99.0) == pytest.approx(0.35)


def test_sender_reports_tell_the_wall_time_of_the_first_time_stamp() -> None:
    clock = StreamClock(48_000)
    clock.seconds(1000, 0.0)
    info = RtcpSenderInfo(
        ntp_timestamp=50 << 32, rtp_timestamp=1000 + 96_000, packet_count=1, octet_count=1
    )
    clock.hear(RtcpSrPacket(ssrc=1, sender_info=info))
    assert clock.wall == pytest.approx(48.0)
