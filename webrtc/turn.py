"""TURN servers for clients, with credentials that expire. No client of TURN, no network.

A relay is for browsers behind a firewall that lets no UDP through to us; this side needs none.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """urls: "turn:host:3478?transport=udp" and so on; secret: the one that the server knows
    (coturn's static-auth-secret); seconds: life of one credential."""

    urls: tuple[str, ...]
    secret: str = field(repr=False)
    seconds: int = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class IceServer:
    """An entry of RTCConfiguration.iceServers."""

    urls: tuple[str, ...]
    username: str
    credential: str = field(repr=False)


def credentials(turn: TurnSettings, user: str, now: float) -> tuple[str, str]:
    """User name and password that are good until `turn.seconds` after `now`, seconds since 1970.

    draft-uberti-behave-turn-rest-00, 2.2: name = "expiry:user", password = the base64 text of
    HMAC-SHA1 of the name under the shared secret.
    """
    name = f"{int(now) + turn.seconds}:{user}"
    digest = hmac.new(turn.secret.encode(), name.encode(), hashlib.sha1).digest()
    return name, base64.b64encode(digest).decode()


def ice_servers(turn: TurnSettings | None, user: str, now: float) -> list[IceServer]:
    """What a client may use; nothing unless a TURN server is set up."""
    if turn is None:
        return []
    name, password = credentials(turn, user, now)
    return [IceServer(urls=turn.urls, username=name, credential=password)]
