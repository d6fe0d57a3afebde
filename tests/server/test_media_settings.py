"""What WebRTC may be told: text and lists; errors name field, value and what is allowed."""

from pathlib import Path
from typing import Any

import pytest

from onbeat.server.api.errors import ApiError
from onbeat.server.api.media import WebRtcMedia
from onbeat.server.api.media_setup import peer_settings, turn_settings, webrtc_media
from onbeat.server.config import SettingsError, load_settings
from onbeat.webrtc.aiortc_transport import AiortcTransport
from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.ports import NoPortError


def test_text_and_files_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "onbeat.toml"
    file.write_text(
        'webrtc_addresses = ["127.0.0.1", "::1"]\nwebrtc_ports = [40000, 40100]\n'
        'webrtc_codecs = ["H264"]\nwebrtc_private_candidates = false\n'
    )
    from_file = load_settings(config_file=file)
    monkeypatch.setenv("ONBEAT_WEBRTC_ADDRESSES", "127.0.0.1, ::1")
    monkeypatch.setenv("ONBEAT_WEBRTC_PRIVATE_CANDIDATES", "false")
    from_text = load_settings(webrtc_ports="40000-40100", webrtc_codecs="H264")
    assert peer_settings(from_file) == peer_settings(from_text)
    assert peer_settings(from_text).host_addresses == ("127.0.0.1", "::1")
    assert peer_settings(from_text).ports == (40_000, 40_100)


def test_defaults_ask_no_outside_server_and_bind_everything() -> None:
    settings = load_settings()
    limits = peer_settings(settings)
    assert limits.host_addresses is None and limits.ports is None and limits.public_address is None
    assert turn_settings(settings) is None
    assert (limits.connect_deadline, limits.silence_deadline) == (15, 4.5)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"webrtc_addresses": "here"}, "webrtc_addresses: 'here' is not allowed"),
        ({"webrtc_public_address": "1.2.3"}, "'1.2.3' is no IP address; allowed: e.g. 192.0.2.7"),
        ({"webrtc_ports": "99-100"}, "webrtc_ports: '99-100' is not allowed"),
        ({"webrtc_ports": "50000"}, "allowed: FIRST-LAST, e.g. 40000-40100"),
        ({"webrtc_ports": "40100-40000"}, "allowed: 1024 <= FIRST <= LAST <= 65535"),
        ({"webrtc_codecs": "AV1"}, "'AV1' is not allowed; allowed: 'VP8' or 'H264'"),
        ({"webrtc_codecs": ""}, "webrtc_codecs: "),
        ({"webrtc_renditions": 4}, "webrtc_renditions: 4 is not allowed"),
        ({"webrtc_max_offer_bytes": 100_000}, "webrtc_max_offer_bytes: 100000 is not allowed"),
        ({"h264_encoder": "magic"}, "'auto', 'x264' or 'nvenc'"),
        ({"turn_urls": "stun:relay", "turn_secret": "x"}, "turn_urls: 'stun:relay' is not"),
        (
            {"turn_urls": "turn:relay"},
            "turn_secret: unset is not allowed; turn_urls are set; allowed: the ",
        ),
        ({"turn_seconds": 5}, "turn_seconds: 5 is not allowed"),
    ],
)
def test_wrong_values_are_named(flags: dict[str, Any], expected: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings(**flags)
    assert expected in str(raised.value)


def test_secrets_do_not_show(tmp_path: Path) -> None:
    settings = load_settings(turn_urls="turn:a,turns:b", turn_secret="north wind")
    turn = turn_settings(settings)
    assert turn is not None and turn.urls == ("turn:a", "turns:b") and turn.secret == "north wind"
    assert "north" not in repr(settings) + str(settings.model_dump()) + repr(turn)


async def test_an_encoder_that_is_not_here_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onbeat.server.api.media_setup.nvenc_works", lambda: False)
    with pytest.raises(SettingsError, match="h264_encoder: 'nvenc'.*allowed: 'auto', 'x264'"):
        webrtc_media(load_settings(h264_encoder="nvenc"))
    media = webrtc_media(load_settings(turn_urls="turn:a", turn_secret="s", encoder_threads=1))
    assert [server.urls for server in media.ice_servers("me")] == [("turn:a",)]
    await media.close()


async def test_no_port_left_is_a_refusal_that_may_be_tried_again() -> None:
    class Full(AiortcTransport):
        async def answer(self, *_: Any, **__: Any) -> Any:
            raise NoPortError("all taken")

    media = WebRtcMedia(Full(peer_settings(load_settings()), EncoderPool(1)))
    with pytest.raises(ApiError, match="All UDP ports") as raised:
        await media.answer("v=0", None, None)  # type: ignore[arg-type]
    assert raised.value.status_code == 503
    await media.close()
