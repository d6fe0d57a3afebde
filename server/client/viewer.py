"""One WebRTC connection to a session: frames and sound as they come, controls back. Needs aiortc.

Who reads too slowly gets the newest and misses the oldest. What it is not: a player.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin

import httpx2
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame, VideoFrame

from onbeat.client.errors import ConnectionFailed, Refused
from onbeat.client.loopback import use_loopback
from onbeat.client.records import Applied
from onbeat.client.transport import AsyncTransport, lost, raise_for_refusal

KEPT = 64
"""Frames, or pieces of sound, that wait to be read."""
ANSWER_SECONDS = 10.0


class Feed:
    """A track's frames, drained all the time so that none piles up in the connection."""

    def __init__(self) -> None:
        self._waiting: deque[Any] = deque(maxlen=KEPT)
        self._news = asyncio.Event()
        self._ended = False

    async def drain(self, track: MediaStreamTrack) -> None:
        with suppress(MediaStreamError):
            while True:
                self._waiting.append(await track.recv())
                self._news.set()
        self.end()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def read(self) -> AsyncIterator[Any]:
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._ended:
                return
            self._news.clear()
            await self._news.wait()


class Viewer:
    """Use as `async with client.sessions.watch(id) as viewer`."""

    def __init__(
        self, transport: AsyncTransport, session_id: str, publish: MediaStreamTrack | None
    ) -> None:
        self._transport, self._session_id, self._publish = transport, session_id, publish
        self._feeds = {"video": Feed(), "audio": Feed()}
        self._tasks: list[asyncio.Task[None]] = []
        self._numbers = count(1)
        self._asked: dict[str, asyncio.Future[Applied]] = {}
        self._open = asyncio.Event()
        self._location: str | None = None
        self.connection: Any = None
        self.status: dict[str, Any] = {}
        """The session's last message of type `status`."""

    async def __aenter__(self) -> Self:
        self.connection = RTCPeerConnection()
        try:
            await self._connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def frames(self) -> AsyncIterator[VideoFrame]:
        """Pictures in order, with `pts` and `time_base`, until the connection ends."""
        return self._feeds["video"].read()

    def sound(self) -> AsyncIterator[AudioFrame]:
        """Pieces of sound in order, until the connection ends."""
        return self._feeds["audio"].read()

    async def steer(self, **changes: Any) -> Applied:
        """Changes the session over this connection; where that takes effect. Raises Refused, or
        TimeoutError if the session is not generated now."""
        await asyncio.wait_for(self._open.wait(), ANSWER_SECONDS)
        number = f"c{next(self._numbers)}"
        answer = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._channel.send(json.dumps({"type": "control", "id": number} | changes))
            return await asyncio.wait_for(answer, ANSWER_SECONDS)
        finally:
            del self._asked[number]

    async def close(self) -> None:
        """Leaves the session. Idempotent."""
        location, self._location = self._location, None
        if location is not None:
            with suppress(httpx2.TransportError):
                await self._transport.http.delete(location, headers=self._transport.headers())
        if self.connection is not None:
            await self.connection.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for feed in self._feeds.values():
            feed.end()

    # ---- the connection ------------------------------------------------------------------------

    async def _connect(self) -> None:
        pc = self.connection
        pc.addTransceiver("audio", direction="recvonly")
        if self._publish is None:
            pc.addTransceiver("video", direction="recvonly")
        else:
            pc.addTransceiver(self._publish, direction="sendrecv")
        pc.on("track", self._track)
        self._channel = pc.createDataChannel("control")
        self._channel.on("open", self._open.set)
        self._channel.on("message", self._heard)
        use_loopback(pc)
        await pc.setLocalDescription(await pc.createOffer())
        answer = await self._offer(pc.localDescription.sdp)
        await pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def _offer(self, sdp: str) -> str:
        url = self._transport.to(f"/v1/sessions/{self._session_id}/duplex")
        headers = self._transport.headers({"Content-Type": "application/sdp"})
        try:
            answer = await self._transport.http.post(url, content=sdp, headers=headers)
        except httpx2.TransportError as error:
            raise lost(error, self._transport.address) from error
        raise_for_refusal(answer)
        self._location = urljoin(url, answer.headers["location"])
        return str(answer.text)

    def _track(self, track: MediaStreamTrack) -> None:
        drain = self._feeds[track.kind].drain(track)
        self._tasks.append(asyncio.create_task(drain, name=f"drain {track.kind}"))

    def _heard(self, text: str) -> None:
        message = json.loads(text)
        match message.get("type"):
            case "status":
                self.status = message
            case "applied":
                applied = Applied(
                    revision=message["revision"],
                    chunk=message["chunk"],
                    media_time=message["media_time"],
                )
                for number in message["ids"]:
                    self._settle(number, applied)
            case "error" if not message.get("held"):
                self._refuse(message)
            case "ended":
                for answer in self._asked.values():
                    if not answer.done():
                        answer.set_exception(ConnectionFailed("The session ended."))

    def _settle(self, number: object, applied: Applied) -> None:
        answer = self._asked.get(str(number))
        if answer is not None and not answer.done():
            answer.set_result(applied)

    def _refuse(self, message: dict[str, Any]) -> None:
        answer = self._asked.get(str(message.get("id")))
        if answer is None or answer.done():
            return
        error = message.get("error") or {}
        answer.set_exception(
            Refused(
                str(error.get("message", "The control was not taken.")),
                status=0,
                code=error.get("code"),
                param=error.get("param"),
            )
        )
