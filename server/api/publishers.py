"""Who publishes to a session: one at a time, by WHIP or by a duplex connection.

A second publisher is refused while the first sends. One that has gone silent, as a process that
was killed, makes room for the next. What it is not: the HTTP (whip.py), or the use of the media.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from onbeat.server.api.errors import ApiError, not_found
from onbeat.server.api.media import Media
from onbeat.server.api.offers import refusing
from onbeat.server.api.session import Session, Viewer
from onbeat.webrtc.ingest import InputSink

SILENT_SECONDS = 2.0
"""A publisher from which nothing has come for so long may be replaced."""


class Publishers:
    """Publications of all sessions. Runs on the event loop."""

    def __init__(self, media: Media) -> None:
        self._media = media
        self._joining: set[str] = set()

    def check(self, offer: str) -> None:
        """Raises ApiError 4xx for a publisher's offer that is not taken."""
        with refusing():
            self._media.check(offer, "publish")

    async def publish(self, session: Session, offer: str) -> Viewer:
        """Answers a publisher's offer. Raises ApiError: 409 where none fits, 4xx for the offer."""
        async with self.place(session) as sink:
            with refusing():
                peer = await self._media.answer(
                    offer, session.broadcast, None, role="publish", sink=sink
                )
            publisher = session.publisher = Viewer(peer, "publisher")
            publisher.ice.begin(offer)
        if session.state == "closed":
            await peer.close()
            raise not_found("session", session.id)
        return publisher

    @asynccontextmanager
    async def place(self, session: Session) -> AsyncIterator[InputSink]:
        """The session's sink, with nobody else publishing to it meanwhile. Raises ApiError 409."""
        sink = self._free(session)
        self._joining.add(session.id)
        try:
            if session.publisher is not None:
                replaced, session.publisher = session.publisher, None
                session.departed.append(replaced.id)
                await replaced.peer.close()
            yield sink
        finally:
            self._joining.discard(session.id)

    def _free(self, session: Session) -> InputSink:
        if session.input is None:
            message = "This session takes no video; open one with mode 'video-to-video'."
            raise ApiError(409, "no_input", message)
        current = session.publisher
        sends = session.publishing and current and current.peer.silent_seconds() < SILENT_SECONDS
        if session.id in self._joining or sends:
            message = "Somebody else publishes to this session; one publisher is allowed."
            headers = {"retry-after": str(round(SILENT_SECONDS))}
            raise ApiError(409, "already_publishing", message, headers=headers)
        return session.input

    def get(self, session: Session, publisher_id: str) -> Viewer:
        """Raises ApiError 404."""
        found = session.publisher
        if found is None or found.id != publisher_id or found.peer.closed:
            raise not_found("publisher", publisher_id)
        return found

    async def leave(self, session: Session, publisher: Viewer) -> None:
        if session.publisher is publisher:
            session.publisher = None
        await publisher.peer.close()
