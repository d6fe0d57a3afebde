"""DTLS with peers whose certificate is RSA, which aiortc's list of ciphers leaves out.

Browsers' certificates are ECDSA; GStreamer's are RSA (RFC 8827, 6.5, allows both), and its
webrtcbin ended with "no shared cipher". It leans on private names of aiortc; a test holds them.
"""

from functools import partial
from typing import Any

from aiortc import RTCPeerConnection

CERTIFICATES = "_RTCPeerConnection__certificates"
SUITES = ("AES128-GCM-SHA256", "CHACHA20-POLY1305", "AES128-SHA", "AES256-SHA")
CIPHERS = ":".join(f"ECDHE-{kind}-{suite}" for kind in ("ECDSA", "RSA") for suite in SUITES)


def take_rsa(pc: RTCPeerConnection) -> None:
    """Let the other side of `pc` have a certificate of either kind. Call it before negotiating."""
    for certificate in getattr(pc, CERTIFICATES):
        make = certificate._create_ssl_context
        certificate._create_ssl_context = partial(_with_ciphers, make)


def _with_ciphers(make: Any, *args: Any, **named: Any) -> Any:
    context = make(*args, **named)
    context.set_cipher_list(CIPHERS.encode())
    return context
