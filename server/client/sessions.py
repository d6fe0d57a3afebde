"""Live sessions: `client.sessions`, blocking and awaiting; watching them needs the latter."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import httpx2
import msgspec

from onbeat.client import calls
from onbeat.client.download import fetch, fetch_async
from onbeat.client.events import EventReader
from onbeat.client.paging import every, every_async
from onbeat.client.records import Applied, Event, Order, Recording, Session
from onbeat.client.transport import AsyncTransport, Transport, lost, raise_for_refusal

if TYPE_CHECKING:
    from aiortc import MediaStreamTrack

    from onbeat.client.viewer import Viewer

Picture = Literal["png", "jpeg"]


def _sessions(body: dict[str, Any]) -> list[Session]:
    return msgspec.convert(body["data"], list[Session], strict=False)


def _file(recording_id: str) -> str:
    return f"/v1/recordings/{recording_id}/content"


class Sessions:
    """Live sessions of a server. Every call may raise OnbeatError."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, prompt: str, **options: Any) -> Session:
        """Opens one. options: the fields of POST /v1/sessions (docs/api.md), such as `mode`,
        `seed`, `num_inference_steps`, `wait`; None leaves one out."""
        return self._transport.send(calls.create_session(prompt, options))

    def get(self, session_id: str) -> Session:
        return self._transport.send(calls.get_session(session_id))

    def list(self) -> list[Session]:
        """Open ones, oldest first."""
        return _sessions(self._transport.send(calls.list_sessions()))

    def steer(self, session_id: str, **changes: Any) -> Applied:
        """Changes it while it runs (`prompt`, `transition`, `seed`, `steps`, `paused`, ...)."""
        return self._transport.send(calls.steer_session(session_id, changes))

    def fork(self, session_id: str, **changes: Any) -> Session:
        """A new one that goes on from where this one is."""
        return self._transport.send(calls.fork_session(session_id, changes))

    def close(self, session_id: str) -> None:
        """Ends it and its viewers."""
        self._transport.send(calls.close_session(session_id))

    def events(self, session_id: str) -> Iterator[Event]:
        """What happens to it, until it ends: `status` once a second, `applied`, `ended`, ..."""
        url = self._transport.to(f"/v1/sessions/{session_id}/events")
        reader = EventReader()
        try:
            with self._transport.http.stream(
                "GET", url, headers=self._transport.headers()
            ) as answer:
                if not answer.is_success:
                    answer.read()
                    raise_for_refusal(answer)
                for line in answer.iter_lines():
                    if (event := reader.feed(line)) is not None:
                        yield event
        except httpx2.TransportError as error:
            raise lost(error, self._transport.address) from error

    def snapshot(
        self, session_id: str, target: str | Path | IO[bytes], *, format: Picture = "png"
    ) -> int:
        """Writes the picture that is shown now; how many bytes."""
        path = f"/v1/sessions/{session_id}/snapshot"
        return fetch(self._transport, path, {"format": format}, target, None)

    def record(self, session_id: str, **options: Any) -> Recording:
        """Begins a recording by the server. options: `format`, `audio`, `max_seconds`."""
        return self._transport.send(calls.start_recording(session_id, options))

    def stop_recording(self, recording_id: str) -> Recording:
        """Ends one; its file is final then."""
        return self._transport.send(calls.stop_recording(recording_id))

    def recordings(
        self,
        session_id: str | None = None,
        *,
        order: Order = "desc",
        limit: int | None = None,
    ) -> Iterator[Recording]:
        """Those of a session, or of all, page by page as they are asked for."""
        return every(self._transport.send, calls.list_recordings(session_id, order), limit)

    def recording(self, recording_id: str) -> Recording:
        return self._transport.send(calls.get_recording(recording_id))

    def delete_recording(self, recording_id: str) -> None:
        """Ends it and removes its file."""
        self._transport.send(calls.delete_recording(recording_id))

    def download_recording(self, recording_id: str, target: str | Path | IO[bytes]) -> int:
        return fetch(self._transport, _file(recording_id), {}, target, None)


class AsyncSessions:
    """Like `Sessions`, awaited; and `watch`."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, prompt: str, **options: Any) -> Session:
        """See `Sessions.create`."""
        return await self._transport.send(calls.create_session(prompt, options))

    async def get(self, session_id: str) -> Session:
        return await self._transport.send(calls.get_session(session_id))

    async def list(self) -> list[Session]:
        """Open ones, oldest first."""
        return _sessions(await self._transport.send(calls.list_sessions()))

    async def steer(self, session_id: str, **changes: Any) -> Applied:
        """See `Sessions.steer`."""
        return await self._transport.send(calls.steer_session(session_id, changes))

    async def fork(self, session_id: str, **changes: Any) -> Session:
        return await self._transport.send(calls.fork_session(session_id, changes))

    async def close(self, session_id: str) -> None:
        await self._transport.send(calls.close_session(session_id))

    async def events(self, session_id: str) -> AsyncIterator[Event]:
        """See `Sessions.events`; use `async for`."""
        url = self._transport.to(f"/v1/sessions/{session_id}/events")
        reader = EventReader()
        try:
            async with self._transport.http.stream(
                "GET", url, headers=self._transport.headers()
            ) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise_for_refusal(answer)
                async for line in answer.aiter_lines():
                    if (event := reader.feed(line)) is not None:
                        yield event
        except httpx2.TransportError as error:
            raise lost(error, self._transport.address) from error

    async def snapshot(
        self, session_id: str, target: str | Path | IO[bytes], *, format: Picture = "png"
    ) -> int:
        """See `Sessions.snapshot`."""
        path = f"/v1/sessions/{session_id}/snapshot"
        return await fetch_async(self._transport, path, {"format": format}, target, None)

    async def record(self, session_id: str, **options: Any) -> Recording:
        """See `Sessions.record`."""
        return await self._transport.send(calls.start_recording(session_id, options))

    async def stop_recording(self, recording_id: str) -> Recording:
        return await self._transport.send(calls.stop_recording(recording_id))

    def recordings(
        self,
        session_id: str | None = None,
        *,
        order: Order = "desc",
        limit: int | None = None,
    ) -> AsyncIterator[Recording]:
        """See `Sessions.recordings`; use `async for`."""
        return every_async(self._transport.send, calls.list_recordings(session_id, order), limit)

    async def recording(self, recording_id: str) -> Recording:
        return await self._transport.send(calls.get_recording(recording_id))

    async def delete_recording(self, recording_id: str) -> None:
        await self._transport.send(calls.delete_recording(recording_id))

    async def download_recording(self, recording_id: str, target: str | Path | IO[bytes]) -> int:
        return await fetch_async(self._transport, _file(recording_id), {}, target, None)

    def watch(self, session_id: str, *, publish: "MediaStreamTrack | None" = None) -> "Viewer":
        """A WebRTC connection, used as `async with`: pictures, sound, steering. Loads aiortc.

        publish: a track of pictures that a video-to-video session works on.
        """
        from onbeat.client.viewer import Viewer

        return Viewer(self._transport, session_id, publish)
