"""Limits and deadlines of one peer connection. Plain data: it reads no environment and no file."""

from dataclasses import dataclass


class OfferError(ValueError):
    """An SDP offer that is not taken. `param` names what is wrong, `code` is for programs.

    Codes: "invalid_sdp", "too_large", "too_many", "unsupported", "no_common_codec".
    """

    def __init__(self, message: str, param: str, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """How far a peer is trusted. Times in seconds, sizes in bytes.

    host_addresses: addresses to bind and to offer; None = all of this machine's, or loopback where
    there is no other. private_candidates: whether private, loopback and link-local addresses named
    in an offer are tried (a public server says no). ports: first and last UDP port to bind, None =
    any. public_address: offered in the place of the bound ones, for a server behind a 1:1 NAT.
    video_codecs: by preference, "VP8", "H264".
    """

    connect_deadline: float = 15.0
    silence_deadline: float = 4.5
    heartbeat_deadline: float = 4.5
    close_timeout: float = 3.0

    max_offer_bytes: int = 64 * 1024
    max_media_lines: int = 8
    max_candidates: int = 64
    max_ssrc_lines: int = 64

    max_message_bytes: int = 16 * 1024
    messages_per_second: float = 60.0
    message_burst: int = 120
    max_buffered_bytes: int = 256 * 1024
    max_refused_channels: int = 8

    video_codecs: tuple[str, ...] = ("VP8", "H264")
    host_addresses: tuple[str, ...] | None = None
    max_host_addresses: int = 4
    ports: tuple[int, int] | None = None
    public_address: str | None = None
    private_candidates: bool = True
    max_received_datagrams: int = 512
