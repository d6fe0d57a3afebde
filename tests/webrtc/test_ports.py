"""Which ports are bound and which address is offered; and relays' credentials."""

import base64
import hashlib
import hmac
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from onbeat.webrtc.ports import NoPortError
from onbeat.webrtc.settings import PeerSettings
from onbeat.webrtc.turn import TurnSettings, credentials, ice_servers


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Two ports that follow each other and were free a moment ago."""
    for first in range(42_000, 60_000, 2):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as two:
                try:
                    one.bind(("127.0.0.1", first))
                    two.bind(("127.0.0.1", first + 1))
                except OSError:
                    continue
        yield first, first + 1
        return


def offered(peer: Any) -> list[tuple[str, int]]:
    lines = [line for line in peer.answer.splitlines() if line.startswith("a=candidate:")]
    return sorted({(line.split()[4], int(line.split()[5])) for line in lines})


async def test_ports_stay_in_their_range_until_none_is_left(
    broadcast: Any, source: Any, receiver: Any, ports: tuple[int, int]
) -> None:
    settings = PeerSettings(host_addresses=("127.0.0.1",), ports=ports)
    first = receiver()
    peers = [await first.join(broadcast, settings), await receiver().join(broadcast, settings)]
    assert {port for peer in peers for _, port in offered(peer)} == set(ports)
    await first.until(lambda: first.packets["video"])
    with pytest.raises(NoPortError, match=rf"127\.0\.0\.1, ports {ports[0]} to {ports[1]}"):
        await receiver().join(broadcast, settings)
    await peers[0].close()
    again = await receiver().join(broadcast, settings)
    assert offered(again) == offered(peers[0]), "a port that was given back is used again"


async def test_a_public_address_stands_for_the_bound_ones(
    broadcast: Any, source: Any, receiver: Any
) -> None:
    viewer = receiver()
    settings = PeerSettings(host_addresses=("127.0.0.1",), public_address="198.51.100.7")
    peer = await viewer.join(broadcast, settings)
    assert {address for address, _ in offered(peer)} == {"198.51.100.7"}
    assert "127.0.0.1" not in peer.answer, "what is behind the NAT is nobody's business"
    await viewer.until(lambda: viewer.packets["video"], 20)  # found from our own checks


def test_credentials_are_those_of_the_draft_and_expire() -> None:
    turn = TurnSettings(urls=("turn:relay.example:3478",), secret="north", seconds=600)
    name, password = credentials(turn, "session_1", 1_000_000.9)
    assert name == "1000600:session_1"
    expected = hmac.new(b"north", name.encode(), hashlib.sha1).digest()
    assert base64.b64decode(password) == expected
    (server,) = ice_servers(turn, "session_1", 1_000_000.9)
    assert (server.urls, server.username) == (turn.urls, name)
    assert "north" not in repr(turn) and password not in repr(server)


def test_without_a_relay_there_are_no_servers() -> None:
    assert ice_servers(None, "anybody", 0.0) == []
