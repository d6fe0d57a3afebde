"""From the server's settings to its media: limits of peers, encoders, relays. It runs nothing."""

from onbeat.server.api.media import Media, WebRtcMedia
from onbeat.server.config import Settings, SettingsError
from onbeat.webrtc.aiortc_transport import AiortcTransport
from onbeat.webrtc.encoders import EncoderPool
from onbeat.webrtc.nvenc import nvenc_works
from onbeat.webrtc.settings import PeerSettings
from onbeat.webrtc.turn import TurnSettings


def webrtc_media(settings: Settings) -> Media:
    """Media over WebRTC. Raises SettingsError for an encoder that this machine has not."""
    if settings.h264_encoder == "nvenc" and not nvenc_works():
        raise SettingsError("h264_encoder: 'nvenc' does not work here; allowed: 'auto', 'x264'")
    transport = AiortcTransport(
        peer_settings(settings),
        EncoderPool(settings.encoder_threads or None, settings.h264_encoder),
        max_renditions=settings.webrtc_renditions,
        turn=turn_settings(settings),
    )
    return WebRtcMedia(transport)


def peer_settings(settings: Settings) -> PeerSettings:
    """The part of the settings that each connection keeps to."""
    return PeerSettings(
        connect_deadline=settings.webrtc_connect_seconds,
        silence_deadline=settings.webrtc_silence_seconds,
        heartbeat_deadline=settings.webrtc_silence_seconds,
        max_offer_bytes=settings.webrtc_max_offer_bytes,
        max_candidates=settings.webrtc_max_candidates,
        video_codecs=settings.webrtc_codecs,
        host_addresses=settings.webrtc_addresses or None,
        ports=settings.webrtc_ports,
        public_address=settings.webrtc_public_address or None,
        private_candidates=settings.webrtc_private_candidates,
    )


def turn_settings(settings: Settings) -> TurnSettings | None:
    """None where no TURN server is named."""
    if not settings.turn_urls or settings.turn_secret is None:
        return None
    return TurnSettings(
        urls=settings.turn_urls,
        secret=settings.turn_secret.get_secret_value(),
        seconds=settings.turn_seconds,
    )
