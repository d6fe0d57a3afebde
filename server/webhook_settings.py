"""Settings of webhooks: the key that signs them, and internal networks that they may reach.

What it is not: the sending (api/webhooks.py), or the checking of addresses (api/targets.py).
"""

import base64
import binascii
import ipaddress

from pydantic import Field, field_validator

from onbeat.server.media_settings import MediaSettings

PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class WebhookSettings(MediaSettings):
    """On top of those of media."""

    webhook_secret: str | None = Field(
        None, description="whsec_ and base64: signs webhooks; made in the data folder if unset"
    )
    webhook_networks: str = Field(
        "", description="internal networks that webhooks may reach, separated by commas"
    )

    @field_validator("webhook_secret")
    @classmethod
    def _check_secret(cls, value: str | None) -> str | None:
        if value is not None:
            secret_bytes(value)
        return value

    @field_validator("webhook_networks")
    @classmethod
    def _check_networks(cls, value: str) -> str:
        parse_networks(value)
        return value


def secret_bytes(text: str) -> bytes:
    """The key in `whsec_` and base64 (Standard Webhooks). Raises ValueError."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64 ({error}); allowed: {PREFIX} and base64") from error
    if not text.startswith(PREFIX) or len(key) not in SECRET_BYTES:
        raise ValueError(f"allowed: {PREFIX} and 24 to 64 bytes in base64")
    return key


def parse_networks(text: str) -> tuple[Network, ...]:
    """Networks separated by commas, as 10.0.0.0/8 or 127.0.0.1. Raises ValueError."""
    parts = filter(None, (part.strip() for part in text.split(",")))
    try:
        return tuple(ipaddress.ip_network(part) for part in parts)
    except ValueError as error:
        raise ValueError(f"{error}; allowed: networks such as 10.0.0.0/8, 127.0.0.1") from error
