"""Media as a receiver gets it: join, keyframes, one encode for all, sound and picture together."""

import asyncio
import time
from typing import Any

import pytest
from aiortc.codecs import depayload
from aiortc.rtcrtpparameters import RTCRtpCodecParameters
from aiortc.rtp import RTCP_PSFB_FIR, RTCP_PSFB_PLI


def pictures(receiver: Any, codec: str = "VP8") -> list[tuple[int, bytes]]:
    """(RTP time stamp, bytes of the encoded picture) in order of arrival."""
    parameters = RTCRtpCodecParameters(mimeType=f"video/{codec}", clockRate=90_000, payloadType=97)
    found: dict[int, bytes] = {}
    for packet in receiver.packets["video"]:
        data = depayload(parameters, packet.payload)
        found[packet.timestamp] = found.get(packet.timestamp, b"") + data
    return list(found.items())


def nal_types(data: bytes) -> list[int]:
    return [part[0] & 0x1F for part in data.split(b"\0\0\0\1") if part]


def is_key(data: bytes, codec: str = "VP8") -> bool:
    if codec == "VP8":
        return not data[0] & 1  # RFC 6386, 9.1: bit 0 is set in all but keyframes
    return 5 in nal_types(data)


def keys(receiver: Any, codec: str = "VP8") -> int:
    return sum(is_key(data, codec) for _, data in pictures(receiver, codec))


def undisturbed(receiver: Any) -> bool:
    """No packet is missing and all pictures but the first lie on the grid of frames."""
    packets = receiver.packets["video"]
    pairs = list(zip(packets[3:], packets[4:], strict=False))
    return all(
        b.sequence - a.sequence == 1 and (b.timestamp - a.timestamp & 0xFFFFFFFF) % 4500 == 0
        for a, b in pairs
    )


async def test_joins_fast(broadcast: Any, source: Any, receiver: Any) -> None:
    viewer = receiver()
    peer = await viewer.join(broadcast)
    await viewer.until(lambda: viewer.packets["video"] and viewer.packets["audio"])
    assert peer.state == "connected"
    assert peer.stats()["first_frame_ms"] is not None
    assert broadcast.stats().viewers == 1


@pytest.mark.parametrize("codec", ["VP8", "H264"])
async def test_starts_with_a_keyframe_and_makes_one_when_asked(
    broadcast: Any, source: Any, receiver: Any, codec: str
) -> None:
    viewer = receiver(codec=codec)
    await viewer.join(broadcast)
    await viewer.until(lambda: len(pictures(viewer, codec)) >= 12)
    got = [is_key(data, codec) for _, data in pictures(viewer, codec)]
    assert got[0] and not any(got[1:]), got
    await viewer.feedback(RTCP_PSFB_PLI)
    await viewer.until(lambda: keys(viewer, codec) == 2, 20)
    await asyncio.sleep(0.3)
    assert keys(viewer, codec) == 2, "later pictures must not be keyframes as well"
    assert viewer.peer.stats()["pictures_lost"] == 1


async def test_h264_parameter_sets_come_before_each_idr(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    viewer = receiver(codec="H264")
    await viewer.join(broadcast)
    await viewer.until(lambda: len(pictures(viewer, "H264")) >= 3)
    await asyncio.sleep(0.5)
    await viewer.feedback(RTCP_PSFB_PLI)
    await viewer.until(lambda: keys(viewer, "H264") == 2, 20)
    for _, data in pictures(viewer, "H264"):
        types = nal_types(data)
        if 5 in types:
            assert types[:2] == [7, 8], types


async def test_requests_for_keyframes_are_merged(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    viewers = [receiver() for _ in range(2)]
    for viewer in viewers:
        await viewer.join(broadcast)
    await asyncio.sleep(1.2)
    before, began = broadcast.stats().keyframes, time.monotonic()
    for _ in range(10):
        for viewer in viewers:
            await viewer.feedback(RTCP_PSFB_PLI)
        await asyncio.sleep(0.09)
    allowed = 2 + (time.monotonic() - began) / 0.5  # of the gate
    assert 1 <= broadcast.stats().keyframes - before <= allowed, "20 requests"


async def test_fir_is_heard_though_it_names_its_stream_inside(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    viewer = receiver()
    await viewer.join(broadcast)
    await viewer.until(lambda: len(pictures(viewer)) >= 12)
    entry = viewer.video_ssrc().to_bytes(4, "big") + bytes((1, 0, 0, 0))
    viewer.video_ssrc = lambda: 0
    await viewer.feedback(RTCP_PSFB_FIR, entry)
    await viewer.until(lambda: keys(viewer) == 2, 20)


async def test_four_viewers_share_one_encode(broadcast: Any, source: Any, receiver: Any) -> None:
    viewers = [receiver() for _ in range(4)]
    await asyncio.gather(*(viewer.join(broadcast) for viewer in viewers))
    await asyncio.gather(*(v.until(lambda v=v: len(pictures(v)) >= 20) for v in viewers))
    stats = broadcast.stats()
    assert stats.viewers == 4
    assert stats.encode_ms.count <= stats.frames_due + stats.frames_repeated
    same = [dict(enumerate(data for _, data in pictures(viewer))) for viewer in viewers]
    tails = [list(each.values())[-8:-3] for each in same]
    assert all(set(tails[0][1:-1]) & set(tail) for tail in tails[1:]), "other bytes than the first"


async def test_a_late_joiner_gets_a_keyframe_first_and_others_are_not_disturbed(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    first, second = receiver(), receiver()
    await first.join(broadcast)
    await first.until(lambda: len(pictures(first)) >= 15)
    await second.join(broadcast)
    await second.until(lambda: len(pictures(second)) >= 5)
    assert is_key(pictures(second)[0][1])
    assert undisturbed(first)


async def test_who_joins_just_after_a_keyframe_does_not_wait_for_the_next(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    first, second = receiver(), receiver()
    await second.pc.createOffer()
    await first.join(broadcast)
    await first.until(lambda: len(pictures(first)) >= 2)
    before = broadcast.stats().keyframes
    await second.join(broadcast)
    await second.until(lambda: len(pictures(second)) >= 6)
    assert is_key(pictures(second)[0][1])
    assert broadcast.stats().keyframes <= before + 1
    stamps = [stamp for stamp, _ in pictures(second)]
    assert all(0 < (b - a) & 0xFFFFFFFF < 2**31 for a, b in zip(stamps, stamps[1:], strict=False))


async def test_sound_and_picture_start_together_and_stay_together(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    viewer = receiver()
    await viewer.join(broadcast)
    source.missing = {6, 11}
    audio, video = viewer.packets["audio"], viewer.packets["video"]
    await viewer.until(lambda: source.index > 15 and len(video) > 20 and len(audio) > 20)
    await viewer.until(lambda: all(viewer.clocks.values()))
    assert abs(audio[0].at - video[0].at) < 2.0  # 0.02 on a quiet machine
    skew = {kind: instants(viewer, kind) for kind in ("audio", "video")}
    # What a browser uses to align both: sender reports map time stamps to one wall clock.
    assert abs(prompt(skew["audio"]) - prompt(skew["video"])) < 0.5  # 0.003 if quiet
    assert viewer.peer.stats()["round_trip_ms"] < 5000
    steps = [b.timestamp - a.timestamp & 0xFFFFFFFF for a, b in zip(audio, audio[1:], strict=False)]
    assert not any(step % 960 for step in steps)
    assert broadcast.stats().audio_underrun_s > 0.3


def instants(receiver: Any, kind: str) -> list[float]:
    """Arrival minus the wall-clock instant that the last sender report gives each packet."""
    ntp, reference = receiver.clocks[kind][-1]
    rate = 48_000 if kind == "audio" else 90_000
    sent_at = ntp / 2**32 - 2_208_988_800 - (time.time() - time.monotonic())
    lags = []
    for packet in receiver.packets[kind]:
        ticks = (packet.timestamp - reference + 2**31) % 2**32 - 2**31
        lags.append(packet.at - (sent_at + ticks / rate))
    return lags


def prompt(lags: list[float]) -> float:
    """The lag of those packets that a busy machine did not hold up."""
    return sorted(lags)[len(lags) // 10]


async def test_audio_only_and_video_only_viewers(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    listener, watcher = receiver(("audio",)), receiver(("video",))
    await listener.join(broadcast)
    await watcher.join(broadcast)
    await listener.until(lambda: len(listener.packets["audio"]) > 10)
    await watcher.until(lambda: len(watcher.packets["video"]) > 5)
    assert not listener.packets["video"] and not watcher.packets["audio"]


async def test_two_codecs_at_once(broadcast: Any, source: Any, receiver: Any) -> None:
    viewers = {codec: receiver(codec=codec) for codec in ("VP8", "H264")}
    for viewer in viewers.values():
        await viewer.join(broadcast)
    for codec, viewer in viewers.items():
        await viewer.until(lambda c=codec, v=viewer: len(pictures(v, c)) >= 5)
    assert set(broadcast.stats().bitrate) == {"VP8", "H264"}
    await viewers["H264"].peer.close()
    assert set(broadcast.stats().bitrate) == {"VP8"}, "an encoder that nobody needs stays"


async def test_a_low_estimate_lowers_the_rate_of_the_encode(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    viewer = receiver()
    await viewer.join(broadcast)
    await viewer.until(lambda: viewer.packets["video"])
    full = broadcast.stats().bitrate["VP8"]
    deadline = time.monotonic() + 30
    while max(broadcast.stats().bitrate.values()) > 0.75 * full:
        assert time.monotonic() < deadline, broadcast.stats().bitrate
        await viewer.estimate(30_000)
        await asyncio.sleep(0.1)
