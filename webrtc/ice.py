"""Addresses and datagrams: which are bound, which are tried, which are let in.

Small guards around aioice, which binds no loopback address, tries any address that an offer names
and takes any datagram from anyone. They lean on a few of its private names; the tests hold them.
"""

import ipaddress
from collections.abc import Sequence
from typing import Any

from aioice.ice import Connection, StunProtocol, get_host_addresses

LOOPBACK = ("127.0.0.1",)
LOWEST_PORT = 1024


def host_addresses(wanted: Sequence[str] | None, limit: int) -> list[str]:
    """The addresses to bind: `wanted`, else all of this machine's, else loopback; at most `limit`.

    One socket each and per peer. IPv4 comes first.
    """
    if wanted is not None:
        return list(wanted)[:limit]
    found = get_host_addresses(use_ipv4=True, use_ipv6=True)
    found.sort(key=lambda address: ":" in address)
    return found[:limit] or list(LOOPBACK)


def usable_candidate(line: str, private: bool) -> bool:
    """Whether an "a=candidate:..." line names an address worth and safe to try.

    Not: mDNS and other names (each costs a second of join time), TCP, RTCP components, ports below
    1024, addresses of no host, and, unless `private`, addresses that are not global.
    """
    parts = line.partition(":")[2].split()
    if len(parts) < 8 or parts[1] != "1" or parts[2].lower() != "udp" or parts[6] != "typ":
        return False
    try:
        address, port = ipaddress.ip_address(parts[4]), int(parts[5])
    except ValueError:
        return False
    if address.is_unspecified or address.is_multicast or not LOWEST_PORT <= port < 65536:
        return False
    return private or address.is_global


def guard_datagrams(connection: Connection, limit: int) -> None:
    """Let media and DTLS in only from addresses under check, at most `limit` datagrams waiting.

    Call it once the candidates are gathered. STUN passes: it carries its own authentication.
    """
    for protocol in connection._protocols:
        _guard(connection, protocol, limit)


def _guard(connection: Connection, protocol: StunProtocol, limit: int) -> None:
    received = protocol.datagram_received

    def guarded(data: bytes | str, addr: tuple[Any, ...]) -> None:
        stun = bool(data) and isinstance(data, bytes) and data[0] < 4
        known = stun or (
            connection._queue.qsize() < limit
            and any(pair.remote_addr == addr[:2] for pair in connection._check_list)
        )
        if data and known:
            received(data, addr)

    protocol.datagram_received = guarded  # type: ignore[method-assign]


def drop_sockets(connection: Connection) -> None:
    """Close the sockets of `connection` at once, whatever else is waiting."""
    for protocol in connection._protocols:
        protocol.transport.abort()
