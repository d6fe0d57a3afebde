"""Where the server may be made to send something: public addresses, and networks that are allowed.

A name is resolved once, every address is checked, and the connection goes to a checked address, so
that a name that changes its mind (DNS rebinding) gets nowhere else. What it is not: the sending.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from onbeat.server.webhook_settings import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL = 2000
RESOLVE_SECONDS = 5.0
PORTS = {"http": 80, "https": 443}
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"(?=.{{1,253}}$){LABEL}(?:\.{LABEL})*")
NUMBER = re.compile(r"(?:.*\.)?(?:\d+|0x[0-9a-f]*)")
"""A host whose last part is a number is an IPv4 address, in one of its forms, or nothing (WHATWG
URL, 3.5)."""


class BadTarget(ValueError):
    """An address that nothing is sent to; the text says why and what is allowed."""


class Unresolved(Exception):
    """The name has no address now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A URL taken apart. `host` in one form: lower case, without brackets or a dot at the end."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """For the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str) -> Target:
    """Raises BadTarget for what is no plain http or https URL."""
    if len(url) > MAX_URL or any(not "\x21" <= c <= "\x7e" for c in url):
        raise BadTarget(f"allowed: at most {MAX_URL} visible ASCII characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadTarget("no URL; allowed: https://host:port/path, port from 1 to 65535") from error
    if parts.scheme not in PORTS or not host:
        raise BadTarget("allowed: an address that begins with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise BadTarget("a name and a password in it are sent to nobody; allowed: none")
    if port == 0 or "\\" in url:
        raise BadTarget("allowed: a port from 1 to 65535, and no backslash")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    port = port or PORTS[parts.scheme]
    return Target(scheme=parts.scheme, host=_host(host), port=port, path=path)


def _host(given: str) -> str:
    """In one form, so that what is checked is what is asked for. Raises BadTarget."""
    host = given.removesuffix(".")
    try:
        if ":" in host and "%" not in host:
            return str(ipaddress.IPv6Address(host))
        if NUMBER.fullmatch(host):
            return socket.inet_ntoa(socket.inet_aton(host))
    except (ValueError, OSError) as error:
        raise BadTarget("no address of a host; allowed: 192.0.2.7, [2001:db8::7]") from error
    if not NAME.fullmatch(host):
        raise BadTarget("allowed: a host's name of letters, digits and hyphens, or its address")
    return host


async def addresses(target: Target, allowed: Iterable[Network] = ()) -> list[Address]:
    """The checked addresses of its host. Raises BadTarget if one is internal, Unresolved."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise Unresolved(f"{target.host} cannot be resolved: {error}") from error
    result = list(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))
    networks = tuple(allowed)
    for address in result:
        if not is_public(address) and not _within(address, networks):
            named = f"{address}, which is " if str(address) != target.host else ""
            raise BadTarget(f"{target.host} is {named}internal; allowed: public ones")
    if not result:
        raise Unresolved(f"{target.host} has no address")
    return result


def is_public(address: Address) -> bool:
    """Whether it is out there: none of this machine, of its networks, or of nobody."""
    inner = _inner(address)
    if inner is not None:
        return is_public(inner)
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _inner(address: Address) -> Address | None:
    """The IPv4 address that an IPv6 one stands for (mapped, 6to4, Teredo, NAT64)."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo


def _within(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)
