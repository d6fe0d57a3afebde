"""Loopback for a peer connection on a machine that has nothing else: aiortc leaves it out.

It leans on a private name of aioice; the tests hold it. What it is not: a choice of addresses.
"""

from typing import Any

from aioice.ice import get_host_addresses
from aiortc import RTCPeerConnection

LOOPBACK = "127.0.0.1"


def use_loopback(pc: RTCPeerConnection) -> None:
    """Call it once all is added that `pc` offers. With any other address it does nothing."""
    if get_host_addresses(use_ipv4=True, use_ipv6=True):
        return
    transports = {each.receiver.transport for each in pc.getTransceivers()}
    if pc.sctp is not None:
        transports.add(pc.sctp.transport)
    for transport in transports:
        _bind(transport.transport._connection)


def _bind(connection: Any) -> None:
    gather = connection.get_component_candidates

    async def gathered(component: int, addresses: list[str], timeout: int = 5) -> Any:
        return await gather(component=component, addresses=[LOOPBACK], timeout=timeout)

    connection.get_component_candidates = gathered
