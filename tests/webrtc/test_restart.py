"""Late candidates and ICE restarts, between two ICE agents on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from aioice import Connection

from onbeat.webrtc.ports import bind_to
from onbeat.webrtc.restart import MAX_REMOTE, add_candidates, restart

SECONDS = 10


async def agent(stack: AsyncExitStack, *, controlling: bool) -> Connection:
    connection = Connection(ice_controlling=controlling)
    bind_to(connection, ["127.0.0.1"])
    await connection.gather_candidates()
    stack.push_async_callback(connection.close)
    return connection


def lines(connection: Connection) -> tuple[str, ...]:
    return tuple(f"a=candidate:{each.to_sdp()}" for each in connection.local_candidates)


async def meet(client: Connection, server: Connection) -> None:
    """The client knows where the server is, the server not where the client is."""
    client.remote_username, client.remote_password = server.local_username, server.local_password
    for candidate in server.local_candidates:
        await client.add_remote_candidate(candidate)
    await client.add_remote_candidate(None)


async def hears(receiver: Connection, data: bytes) -> None:
    async with asyncio.timeout(SECONDS):
        while await receiver.recv() != data:
            pass


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def pair(stack: AsyncExitStack) -> tuple[Connection, Connection]:
    """A client and a server that are connected."""
    client, server = await agent(stack, controlling=True), await agent(stack, controlling=False)
    await meet(client, server)
    server.remote_username, server.remote_password = client.local_username, client.local_password
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(client.connect(), server.connect())
    return client, server


async def test_after_a_restart_media_go_to_the_new_address(
    stack: AsyncExitStack, pair: tuple[Connection, Connection]
) -> None:
    old, server = pair
    before = (server.local_username, server.local_password, lines(server))
    new = await agent(stack, controlling=True)
    username, password, candidates = await restart(
        server, new.local_username, new.local_password, lines(new), True
    )
    assert username != before[0] and password != before[1]
    assert tuple(f"a=candidate:{each}" for each in candidates) == before[2], "the sockets stay"
    await server.send(b"meanwhile")
    await hears(old, b"meanwhile")
    await meet(new, server)
    async with asyncio.timeout(SECONDS):
        await new.connect()
    await new.send(b"up")
    await hears(server, b"up")

    async def moved() -> None:
        while next(iter(server._nominated.values())).remote_addr[1] != port(new):
            await asyncio.sleep(0.01)

    await asyncio.wait_for(moved(), SECONDS)
    await server.send(b"down")
    await hears(new, b"down")


def port(connection: Connection) -> int:
    return int(connection.local_candidates[0].port)


async def test_a_restart_from_the_same_address_goes_on(pair: tuple[Connection, Connection]) -> None:
    client, server = pair
    first = await restart(server, "abcd", "x" * 24, (), True)
    await restart(client, first[0], first[1], lines(server), True)
    client._local_username, client._local_password = "abcd", "x" * 24
    used = next(iter(server._nominated.values()))
    client._check_list[0].task = None
    client.check_start_task(client._check_list[0])
    async with asyncio.timeout(SECONDS):
        while not used.nominated:
            await asyncio.sleep(0.01)
    await client.send(b"still there")
    await hears(server, b"still there")


async def test_without_a_session_there_is_nothing_to_restart(stack: AsyncExitStack) -> None:
    fresh = await agent(stack, controlling=False)
    with pytest.raises(ConnectionError):
        await restart(fresh, "abcd", "x" * 24, (), True)
    fresh.remote_username = "abcd"
    await fresh.close()
    with pytest.raises(ConnectionError):
        await restart(fresh, "abcd", "x" * 24, (), True)


async def test_unusable_and_too_many_candidates_are_dropped(stack: AsyncExitStack) -> None:
    server = await agent(stack, controlling=False)
    good = tuple(
        f"a=candidate:1 1 udp 2130706431 127.0.0.1 {50_000 + at} typ host" for at in range(99)
    )
    bad = (
        "a=candidate:1 1 tcp 1518280447 127.0.0.1 9 typ host tcptype active",
        "a=candidate:1 1 udp 2130706431 0e1d.local 50000 typ host",
        "a=candidate:1 1 udp",
    )
    assert await add_candidates(server, bad + good[:1], True) == 1
    assert await add_candidates(server, good[:1], True) == 0, "known already"
    assert await add_candidates(server, good, False) == 0, "private addresses are not tried"
    assert await add_candidates(server, good, True) == MAX_REMOTE - 1
