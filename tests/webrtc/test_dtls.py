"""A client whose certificate is RSA, as GStreamer's is, gets through DTLS."""

import datetime
from typing import Any

from aiortc.rtcdtlstransport import RTCCertificate
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from onbeat.webrtc.dtls import CERTIFICATES, take_rsa
from tests.webrtc.conftest import Receiver


def rsa_certificate() -> RTCCertificate:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rsa")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return RTCCertificate(key=key, cert=made)  # type: ignore[arg-type]


async def test_a_client_with_an_rsa_certificate_gets_media(broadcast: Any, source: Any) -> None:
    client = Receiver(("audio", "video"), "VP8", None)
    setattr(client.pc, CERTIFICATES, [rsa_certificate()])
    take_rsa(client.pc)
    await client.join(broadcast)
    await client.until(client.packets["video"].__len__, 30)
    await client.pc.close()
    assert client.peer is not None
    await client.peer.close()
