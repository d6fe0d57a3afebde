"""The sockets of one peer: on which addresses and ports, and under which name they are offered.

aioice binds random ports and offers the addresses that it bound. Here ports may be kept within a
range that a firewall lets through, and a public address may stand for the bound ones (1:1 NAT). It
leans on private names of aioice; the tests hold them.
"""

import asyncio
import ipaddress
import secrets
import socket
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

from aioice import Candidate
from aioice.candidate import candidate_foundation, candidate_priority
from aioice.ice import Connection, StunProtocol
from aioice.turn import UDP_SOCKET_BUFFER_SIZE

Ports = tuple[int, int]


class NoPortError(OSError):
    """Every UDP port that may be used is taken."""


def bind_to(
    connection: Connection,
    addresses: Sequence[str],
    ports: Ports | None = None,
    public_address: str | None = None,
) -> None:
    """Have `connection` gather on `addresses`, one socket each, instead of on those aioice finds.

    ports: first and last UDP port that may be bound; None takes any. public_address: is offered in
    the place of every bound address of its family, which then appears nowhere. Gathering raises
    NoPortError when no socket could be bound.
    """

    async def gather(component: int, addresses: list[str], timeout: int = 5) -> list[Candidate]:
        bound = [await _bind(connection, component, address, ports) for address in chosen]
        found = [each for each in bound if each is not None]
        if chosen and not found:
            where = f"ports {ports[0]} to {ports[1]}" if ports else "any port"
            raise NoPortError(f"no UDP socket could be bound on {', '.join(chosen)}, {where}")
        more = await gather_more(component=component, addresses=[], timeout=timeout)
        return [*_offered(found, public_address), *more]

    chosen = list(addresses)
    gather_more = connection.get_component_candidates
    connection.get_component_candidates = gather  # type: ignore[method-assign]


async def _bind(
    connection: Connection, component: int, address: str, ports: Ports | None
) -> Candidate | None:
    loop = asyncio.get_running_loop()
    for port in _in_turn(ports):
        try:
            transport, protocol = await loop.create_datagram_endpoint(
                lambda: StunProtocol(connection), local_addr=(address, port)
            )
        except OSError:
            continue  # taken, or an address that is gone
        return _known(connection, component, transport, protocol)
    return None


def _in_turn(ports: Ports | None) -> Iterator[int]:
    """All ports of the range from a random one on; 0, any, without a range."""
    if ports is None:
        yield 0
        return
    first, count = ports[0], ports[1] - ports[0] + 1
    start = secrets.randbelow(count)
    yield from (first + (start + number) % count for number in range(count))


def _known(
    connection: Connection, component: int, transport: Any, protocol: StunProtocol
) -> Candidate:
    received = transport.get_extra_info("socket")
    received.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UDP_SOCKET_BUFFER_SIZE)
    host, port = transport.get_extra_info("sockname")[:2]
    protocol.local_candidate = Candidate(
        foundation=candidate_foundation("host", "udp", host),
        component=component,
        transport="udp",
        priority=candidate_priority(component, "host"),
        host=host,
        port=port,
        type="host",
    )
    connection._protocols.append(protocol)
    return protocol.local_candidate


def _offered(found: Sequence[Candidate], public_address: str | None) -> list[Candidate]:
    """What an answer names. The sockets keep the addresses that they are bound to."""
    if public_address is None:
        return list(found)
    version = ipaddress.ip_address(public_address).version
    same = [copy(each) for each in found if ipaddress.ip_address(each.host).version == version]
    for each in same:
        each.host = public_address
    return same
