"""Offers are counted, cleaned and judged before anything is built."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiortc import RTCPeerConnection

from onbeat.webrtc.offer import check_offer
from onbeat.webrtc.peer import answer_offer
from onbeat.webrtc.settings import OfferError, PeerSettings

SETTINGS = PeerSettings()
CANDIDATE = "a=candidate:1 1 udp 2130706431 192.0.2.7 50000 typ host"


def section(kind: str, mid: int, *, direction: str | None = "recvonly", more: str = "") -> str:
    codecs = {
        "video": "97 98\r\na=rtpmap:97 VP8/90000\r\na=rtpmap:98 rtx/90000\r\na=fmtp:98 apt=97",
        "audio": "96\r\na=rtpmap:96 opus/48000/2",
    }
    head = (
        "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=sctp-port:5000"
        if kind == "application"
        else f"m={kind} 9 UDP/TLS/RTP/SAVPF {codecs[kind]}\r\na=rtcp-mux"
    )
    stated = f"a={direction}\r\n" if direction and kind != "application" else ""
    return (
        f"{head}\r\nc=IN IP4 0.0.0.0\r\na=mid:{mid}\r\n{stated}a=ice-ufrag:abcd\r\n"
        f"a=ice-pwd:{'x' * 24}\r\na=setup:actpass\r\n"
        f"a=fingerprint:sha-256 {':'.join(['AB'] * 32)}\r\n{more}"
    )


def session(*sections: str, bundle: str | None = None) -> str:
    mids = " ".join(re.findall(r"a=mid:(\S+)", "".join(sections)))
    group = f"a=group:BUNDLE {mids}\r\n" if bundle is None else bundle
    return f"v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n{group}" + "".join(sections)


def both(**more: Any) -> str:
    return session(section("audio", 0), section("video", 1, **more))


def test_a_plain_offer_is_taken() -> None:
    checked = check_offer(both(), SETTINGS)
    assert checked.video_codec == "VP8" and checked.audio


@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (lambda: "", "invalid_sdp", "v=0"),
        (lambda: "hello", "invalid_sdp", "v=0"),
        (lambda: "v=0\r\n" + "\x00", "invalid_sdp", "not SDP"),
        (lambda: '{"type": "offer"}', "invalid_sdp", "v=0"),
        (lambda: session(), "invalid_sdp", "no m-line"),
        (lambda: both().replace("m=video 9", "m=video x"), "invalid_sdp", "not valid SDP"),
        (lambda: both().replace("rtpmap:97", "rtpmap:x"), "invalid_sdp", "not valid SDP"),
        (lambda: both().replace("fmtp:98", "fmtp:55"), "invalid_sdp", "not valid SDP"),
        (lambda: both() + "a=x:" + "y" * 65_536, "too_large", "65536"),
        (lambda: both() + "a=x:é" * 30_000, "too_large", "bytes"),
        (lambda: session(*[section("video", n) for n in range(9)]), "too_many", "at most 8"),
        (lambda: both(more=f"{CANDIDATE}\r\n" * 65), "too_many", "at most 64"),
        (lambda: both(more="a=ssrc:1 cname:x\r\n" * 65), "too_many", "at most 64"),
        (lambda: both(more="a=x\r\n" * 1001), "too_many", "at most 1000"),
        (lambda: session(section("video", 0), section("video", 1)), "too_many", "one is taken"),
        (lambda: session(section("application", 0)), "unsupported", "neither audio nor video"),
        (lambda: session(section("video", 0, direction="sendonly")), "unsupported", "recvonly"),
        (lambda: session(section("video", 0, direction="inactive")), "unsupported", "recvonly"),
        (lambda: both().replace("m=video", "m=text"), "unsupported", "only audio, video"),
        (lambda: both().replace("m=video 9", "m=video 0"), "unsupported", "port is 0"),
        (lambda: both().replace("a=rtcp-mux\r\n", ""), "unsupported", "rtcp-mux"),
        (lambda: both().replace("a=ice-pwd", "a=x"), "invalid_sdp", "ice-pwd"),
        (lambda: both().replace("fingerprint:sha-256", "fingerprint:md5"), "invalid_sdp", "sha"),
        (lambda: both().replace("a=setup:actpass\r\n", ""), "invalid_sdp", "a=setup"),
        (lambda: both().replace("a=mid:1", "a=mid:0"), "unsupported", "BUNDLE"),
        (lambda: both().replace("a=group:BUNDLE 0 1\r\n", ""), "unsupported", "BUNDLE"),
        (lambda: both().replace("VP8/90000", "AV1/90000"), "no_common_codec", "VP8, H264"),
        (lambda: both().replace("opus/48000", "foo/48000"), "no_common_codec", "opus"),
    ],
)
async def test_bad_offers_are_refused_before_anything_is_built(
    make: Callable[[], str], code: str, says: str, broadcast: Any, monkeypatch: Any
) -> None:
    def build(*_: object) -> RTCPeerConnection:
        raise AssertionError("a peer connection was built")

    monkeypatch.setattr("onbeat.webrtc.peer.RTCPeerConnection", build)
    with pytest.raises(OfferError) as caught:
        await answer_offer(make(), broadcast)
    assert caught.value.code == code and caught.value.param
    assert says in caught.value.message
    assert broadcast.stats().viewers == 0 and not broadcast.stats().bitrate


def test_quadratic_parsing_is_not_reached() -> None:
    offer = both(more="".join(f"a=ssrc:{n} cname:x\r\n" for n in range(3_000)))
    started = time.perf_counter()
    with pytest.raises(OfferError):
        check_offer(offer, SETTINGS)
    assert time.perf_counter() - started < 10.0


@pytest.mark.parametrize(
    "candidate",
    [
        "a=candidate:1 1 udp 1 6a5c-11.local 50000 typ host",
        "a=candidate:1 1 tcp 1 192.0.2.7 50000 typ host tcptype active",
        "a=candidate:1 1 udp 1 192.0.2.7 53 typ host",
        "a=candidate:1 1 udp 1 0.0.0.0 5000 typ host",
        "a=candidate:1 1 udp 1 224.0.0.1 5000 typ host",
        "a=candidate:1 2 udp 1 192.0.2.7 5000 typ host",
        "a=candidate:1 1 udp 1 example.org 5000 typ host",
        "a=candidate:garbage",
    ],
)
def test_useless_candidates_are_dropped_silently(candidate: str) -> None:
    lines = f"{candidate}\r\n{CANDIDATE}\r\na=end-of-candidates\r\n"
    checked = check_offer(both(more=lines), SETTINGS)
    assert candidate not in checked.sdp and CANDIDATE in checked.sdp
    assert "end-of-candidates" not in checked.sdp  # else ICE fails before the browser is heard


@pytest.mark.parametrize("address", ["10.1.2.3", "127.0.0.1", "169.254.1.1", "fd00::2"])
def test_a_public_server_tries_no_private_address(address: str) -> None:
    line = f"a=candidate:1 1 udp 1 {address} 50000 typ host"
    public = PeerSettings(private_candidates=False)
    assert line in check_offer(both(more=line + "\r\n"), SETTINGS).sdp
    assert line not in check_offer(both(more=line + "\r\n"), public).sdp


def test_an_unstated_direction_means_sendrecv() -> None:
    sdp = session(section("audio", 0, direction="inactive"), section("video", 1, direction=None))
    checked = check_offer(sdp, SETTINGS)
    assert checked.video_codec == "VP8" and not checked.audio
    assert "a=sendrecv" in checked.sdp.split("m=video")[1]


def test_h264_is_taken_where_vp8_is_not_offered() -> None:
    h264 = both().replace("VP8/90000", "H264/90000") + (
        "a=fmtp:97 packetization-mode=1;profile-level-id=42e01f\r\n"
    )
    assert check_offer(h264, SETTINGS).video_codec == "H264"
    with pytest.raises(OfferError, match="VP8"):
        check_offer(h264, PeerSettings(video_codecs=("VP8",)))


async def test_a_webcam_offered_along_is_not_received(broadcast: Any, receiver: Any) -> None:
    microphone, camera = (("audio", 0, "sendonly"), ("video", 1, "sendrecv"))
    sdp = session(*(section(k, mid, direction=d) for k, mid, d in (microphone, camera)))
    peer = await answer_offer(sdp, broadcast)
    answer = peer.answer.split("m=")
    assert "a=inactive" in answer[1] and "a=sendonly" in answer[2]
    await peer.close()


def test_a_line_that_is_only_bundled_has_no_port_of_its_own() -> None:
    offer = both(more="a=bundle-only\r\n").replace("m=video 9", "m=video 0")
    assert check_offer(offer, SETTINGS).video_codec == "VP8"


# ---- who sends, and what -------------------------------------------------------------------------


def test_a_publisher_sends_and_receives_nothing() -> None:
    sdp = session(
        section("audio", 0, direction="sendonly"), section("video", 1, direction="sendrecv")
    )
    checked = check_offer(sdp, SETTINGS, "publish")
    assert checked.sends == {"audio", "video"}
    assert checked.video_codec is None and not checked.audio


@pytest.mark.parametrize("direction", ["recvonly", "inactive"])
def test_a_publisher_that_sends_nothing_is_refused(direction: str) -> None:
    with pytest.raises(OfferError, match="sends neither") as refused:
        check_offer(both(direction=direction).replace("a=sendrecv", "a=x"), SETTINGS, "publish")
    assert refused.value.param == "direction"


def test_duplex_does_both_and_a_viewer_sends_nothing() -> None:
    sdp = session(section("audio", 0), section("video", 1, direction="sendrecv"))
    checked = check_offer(sdp, SETTINGS, "duplex")
    assert checked.sends == {"video"} and checked.audio and checked.video_codec == "VP8"
    assert not check_offer(sdp, SETTINGS).sends
    with pytest.raises(OfferError, match="receives neither"):
        check_offer(session(section("video", 0, direction="sendonly")), SETTINGS, "duplex")


def test_any_profile_of_h264_is_received_but_not_sent() -> None:
    line = "a=fmtp:97 packetization-mode=1;profile-level-id=640028\r\n"
    offer = session(section("video", 0, direction="sendrecv", more=line))
    offer = offer.replace("VP8/90000", "H264/90000")
    assert check_offer(offer, SETTINGS, "publish").restored == {97: "640028"}
    with pytest.raises(OfferError) as refused:
        check_offer(offer, SETTINGS)
    assert refused.value.code == "no_common_codec"
