"""The settings of the live connections: addresses, ports, relays, deadlines, limits, encoders.

A part of `onbeat.server.config.Settings`, kept apart for its length. It opens nothing.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode

from onbeat.server.wording import shown

LEAST_PORT = 1024
RELAY = re.compile(r"turns?:(\[[0-9a-fA-F:]+\]|[\w.-]+)(:\d{1,5})?(\?transport=(udp|tcp))?")
"""RFC 7065, 3.1."""


def _apart(value: Any) -> Any:
    """Text with commas becomes its parts; a list of a settings file stays."""
    if isinstance(value, str):
        return tuple(filter(None, (part.strip() for part in value.split(","))))
    return value


def _addresses(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(_address(value) for value in values)


def _address(value: str) -> str:
    try:
        return str(ip_address(value)) if value else ""
    except ValueError as error:
        raise ValueError(f"{value!r} is no IP address; allowed: e.g. 192.0.2.7, fd00::7") from error


def _ports(value: Any) -> Any:
    """ "40000-40100" becomes (40000, 40100), nothing None."""
    if isinstance(value, str):
        first, dash, last = value.partition("-")
        if not value:
            return None
        if not dash or not first.strip().isdigit() or not last.strip().isdigit():
            raise ValueError("allowed: FIRST-LAST, e.g. 40000-40100")
        return int(first), int(last)
    return value


def _port_range(value: tuple[int, int] | None) -> tuple[int, int] | None:
    if value is not None and not LEAST_PORT <= value[0] <= value[1] <= 65535:
        raise ValueError(f"allowed: {LEAST_PORT} <= FIRST <= LAST <= 65535")
    return value


def _relays(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not RELAY.fullmatch(value):
            allowed = "turn:HOST[:PORT][?transport=udp|tcp], turns:HOST[:PORT]"
            raise ValueError(f"{shown(value)} is no TURN address; allowed: {allowed}")
    return values


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_apart)]
Addresses = Annotated[Words, AfterValidator(_addresses)]
Ports = Annotated[
    tuple[int, int] | None, NoDecode, BeforeValidator(_ports), AfterValidator(_port_range)
]
Codecs = Annotated[
    tuple[Literal["VP8", "H264"], ...], NoDecode, BeforeValidator(_apart), Field(min_length=1)
]


class MediaSettings(BaseSettings):
    """What `serve` may be told about WebRTC. Times in seconds."""

    webrtc_addresses: Addresses = Field(
        (), description="addresses to bind for media, with commas; none takes all of this machine"
    )
    webrtc_ports: Ports = Field(
        None, description="UDP ports for media, FIRST-LAST, one each connection and address"
    )
    webrtc_public_address: Annotated[str, AfterValidator(_address)] = Field(
        "", description="address to offer in the place of the bound ones, behind a 1:1 NAT"
    )
    webrtc_private_candidates: bool = Field(
        True, description="try private addresses that an offer names; a public server says false"
    )
    webrtc_connect_seconds: float = Field(
        15, ge=1, le=120, description="an offer that is not connected after this is closed"
    )
    webrtc_silence_seconds: float = Field(
        4.5, ge=1, le=120, description="a viewer not heard of for this long is gone"
    )
    webrtc_max_offer_bytes: int = Field(
        65_536, ge=2048, le=65_536, description="size of an SDP offer at most"
    )
    webrtc_max_candidates: int = Field(
        64, ge=1, le=1000, description="candidates of an SDP offer at most"
    )
    webrtc_codecs: Codecs = Field(("VP8", "H264"), description="video codecs, by preference")
    webrtc_renditions: int = Field(
        3, ge=1, le=3, description="encodes of one picture at most, for viewers with weaker links"
    )
    encoder_threads: int = Field(0, ge=0, le=256, description="threads of all encoders; 0 auto")
    h264_encoder: Literal["auto", "x264", "nvenc"] = Field(
        "auto", description="what encodes H.264; auto takes the GPU where it can"
    )
    turn_urls: Annotated[Words, AfterValidator(_relays)] = Field(
        (), description="TURN servers for browsers behind firewalls, with commas"
    )
    turn_secret: SecretStr | None = Field(
        None,
        validate_default=True,
        description="the secret that is shared with them (coturn: static-auth-secret)",
    )
    turn_seconds: int = Field(600, ge=60, le=86_400, description="life of a TURN credential")

    @field_validator("turn_secret")
    @classmethod
    def _needed(cls, value: SecretStr | None, known: ValidationInfo) -> SecretStr | None:
        if known.data.get("turn_urls") and not (value and value.get_secret_value()):
            raise ValueError("turn_urls are set; allowed: the secret of those servers")
        return value
