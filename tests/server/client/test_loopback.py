"""A peer connection on a machine with loopback alone; elsewhere nothing is changed."""

import pytest
from aiortc import RTCPeerConnection

from onbeat.client.loopback import use_loopback


async def offered() -> list[str]:
    """The addresses of an offer."""
    pc = RTCPeerConnection()
    pc.addTransceiver("audio", direction="recvonly")
    pc.addTransceiver("video", direction="recvonly")
    pc.createDataChannel("control")
    use_loopback(pc)
    await pc.setLocalDescription(await pc.createOffer())
    lines = pc.localDescription.sdp.splitlines()
    await pc.close()
    return [line.split()[4] for line in lines if line.startswith("a=candidate:")]


@pytest.mark.parametrize(("found", "wanted"), [([], {"127.0.0.1"}), (["127.0.0.2"], {"127.0.0.2"})])
async def test_loopback_is_offered_where_there_is_nothing_else(
    monkeypatch: pytest.MonkeyPatch, found: list[str], wanted: set[str]
) -> None:
    for module in ("aioice.ice", "onbeat.client.loopback"):
        monkeypatch.setattr(f"{module}.get_host_addresses", lambda **_: list(found))
    addresses = await offered()
    assert len(addresses) == 3 and set(addresses) == wanted
