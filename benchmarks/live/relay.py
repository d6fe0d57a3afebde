"""A UDP relay in user space: loss, delay and cuts between a browser and the server.

Kernels of test machines often lack netem; only the relay's address is put into the answer, so that
all packets pass here. One client each; everything runs on the event loop that made it.
"""

import asyncio
import random
import re
from collections.abc import Callable
from functools import partial
from typing import Any

Address = tuple[str, int]


class _Leg(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, Address], None]) -> None:
        self._received = received
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._received(data, addr[:2])

    def send(self, data: bytes, to: Address) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.sendto(data, to)


def _same(leg: _Leg) -> _Leg:
    return leg


class Relay:
    """loss: share of datagrams dropped each way; delay: seconds each way; cut: drops everything.

    STUN is let through except in a cut: what is measured is media, not the luck of the checks.
    """

    def __init__(self, seed: int = 1) -> None:
        self.loss, self.delay, self.cut = 0.0, 0.0, False
        self.passed = self.dropped = 0
        self._random = random.Random(seed)
        self._near, self._far = _Leg(self._from_client), _Leg(self._from_server)
        self._client: Address | None = None
        self._server: Address = ("127.0.0.1", 0)

    async def open(self, answer: str) -> str:
        """Stands between; the answer with the relay's address instead of the server's."""
        loop = asyncio.get_running_loop()
        for leg in (self._near, self._far):
            await loop.create_datagram_endpoint(partial(_same, leg), local_addr=("127.0.0.1", 0))
        host, port = re.findall(r"a=candidate:\S+ 1 udp \d+ (\S+) (\d+) typ host", answer)[0]
        self._server = (host, int(port))
        assert self._near.transport is not None
        here = self._near.transport.get_extra_info("sockname")[1]
        line = f"a=candidate:1 1 udp 2130706431 127.0.0.1 {here} typ host"
        found = re.sub(r"a=candidate:[^\r\n]*", line, answer)
        return re.sub(rf"({re.escape(line)}\r\n)+", line + "\r\n", found)

    def close(self) -> None:
        for leg in (self._near, self._far):
            if leg.transport is not None:
                leg.transport.close()

    def _from_client(self, data: bytes, addr: Address) -> None:
        self._client = addr
        self._pass(data, self._far, self._server)

    def _from_server(self, data: bytes, addr: Address) -> None:
        if self._client is not None:
            self._pass(data, self._near, self._client)

    def _pass(self, data: bytes, leg: _Leg, to: Address) -> None:
        stun = data[0] < 4
        if self.cut or (not stun and self._random.random() < self.loss):
            self.dropped += 1
            return
        self.passed += 1
        if self.delay:
            asyncio.get_running_loop().call_later(self.delay, leg.send, data, to)
        else:
            leg.send(data, to)
