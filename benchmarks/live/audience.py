"""Receivers in one other process for the benchmarks of the sender: they drop what they get.

`Audience.add(answer)` makes one more. It measures nothing itself.
"""

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.rtcrtpreceiver import RTCRtpReceiver

Answer = Callable[[str], Awaitable[str]]


async def _serve(pipe: Connection) -> None:
    """Answers "add", ("answer", n, sdp), ("leave", n) until "stop"."""

    async def drop(self: RTCRtpReceiver, packet: object, arrival_time_ms: int) -> None:
        return None

    RTCRtpReceiver._handle_rtp_packet = drop  # type: ignore[method-assign]
    members: dict[int, RTCPeerConnection] = {}
    while True:
        message: Any = await asyncio.to_thread(pipe.recv)
        match message:
            case "add":
                pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
                for kind in ("audio", "video"):
                    pc.addTransceiver(kind, direction="recvonly")
                await pc.setLocalDescription(await pc.createOffer())
                number = len(members)
                members[number] = pc
                pipe.send((number, pc.localDescription.sdp))
            case ("answer", number, sdp):
                await members[number].setRemoteDescription(RTCSessionDescription(sdp, "answer"))
                pipe.send(None)
            case ("leave", number):
                await members[number].close()
                pipe.send(None)
            case _:
                await asyncio.gather(*(pc.close() for pc in members.values()))
                pipe.send(None)
                return


def _run(pipe: Connection) -> None:
    asyncio.run(_serve(pipe))


class Audience:
    """One process of receivers."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(theirs,), daemon=True)
        self._process.start()

    async def _ask(self, message: object) -> Any:
        self._pipe.send(message)
        return await asyncio.to_thread(self._pipe.recv)

    async def add(self, answer: Answer) -> int:
        """One more receiver; `answer` turns its offer into an answer."""
        number, offer = await self._ask("add")
        await self._ask(("answer", number, await answer(offer)))
        return int(number)

    async def leave(self, number: int) -> None:
        await self._ask(("leave", number))

    async def close(self) -> None:
        await self._ask("stop")
        await asyncio.to_thread(self._process.join)
