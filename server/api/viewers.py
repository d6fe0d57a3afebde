"""Who watches: offers answered within the caps, viewers found again.

What it is not: the HTTP of WHEP (whep.py), what viewers say (channel.py) or the peer connection
itself (onbeat.webrtc).
"""

import time
from collections.abc import Callable
from typing import Any

from onbeat.server.api.channel import Channels
from onbeat.server.api.errors import not_found, unavailable
from onbeat.server.api.media import Media
from onbeat.server.api.offers import refusing, wants_to_send
from onbeat.server.api.publishers import Publishers
from onbeat.server.api.session import Session, Viewer
from onbeat.server.api.sessions import SessionManager

UNFINISHED_KEEPS = 0.5
"""Seconds for which an offer keeps its place, though another one wants it."""


class Viewers:
    """Joins and leaves of all sessions. Runs on the event loop."""

    def __init__(
        self,
        sessions: SessionManager,
        media: Media,
        publishers: Publishers,
        max_viewers: int,
        refused: Callable[[str], None],
    ) -> None:
        self._sessions = sessions
        self._media = media
        self._publishers = publishers
        self._max = max_viewers
        self._count_refusal = refused
        self._channels = Channels(sessions)
        self._joining = 0

    def check(self, offer: str) -> None:
        """Raises ApiError 4xx for a player's offer that is not taken."""
        with refusing(viewing=True):
            self._media.check(offer, "view")

    async def join(self, session: Session, offer: str, *, duplex: bool) -> Viewer:
        """Answers an offer. Raises ApiError: 503 when full, 4xx for an offer that is not taken."""
        self._joining += 1
        try:
            await self._make_room()
            if session.first_offer is None:
                session.first_offer = time.monotonic()
            with refusing(viewing=True):
                return await self._answer(session, offer, duplex=duplex)
        finally:
            self._joining -= 1

    async def _make_room(self) -> None:
        """A place, if need be that of the offer that has waited longest for its sender to go on:
        whoever posts offers and leaves cannot keep the others out. Raises ApiError 503."""
        here = [(s, v) for s in self._sessions.all() for v in s.viewers.values()]
        if sum(not v.peer.closed for _, v in here) + self._joining <= self._max:
            return
        oldest = min(
            ((s, v) for s, v in here if not v.peer.connected and not v.peer.closed),
            key=lambda each: each[1].since,
            default=None,
        )
        if oldest is None or time.monotonic() - oldest[1].since < UNFINISHED_KEEPS:
            self._count_refusal("viewers")
            many = "1 viewer is" if self._max == 1 else f"{self._max} viewers are"
            raise unavailable("capacity", f"{many} connected, the most allowed.")
        session, viewer = oldest
        await self.leave(session, viewer)

    async def _answer(self, session: Session, offer: str, *, duplex: bool) -> Viewer:
        holder: list[Viewer] = []

        def on_message(message: dict[str, Any]) -> None:
            if holder:
                self._channels.message(session, holder[0], message)

        if duplex and session.input is not None and wants_to_send(offer):
            async with self._publishers.place(session) as sink:
                peer = await self._media.answer(
                    offer, session.broadcast, on_message, role="duplex", sink=sink
                )
                viewer = self._joined(session, Viewer(peer), offer)
                session.publisher = viewer if peer.sends() else None
        else:
            peer = await self._media.answer(
                offer, session.broadcast, on_message if duplex else None
            )
            viewer = self._joined(session, Viewer(peer), offer)
        holder.append(viewer)
        if session.state == "closed":
            await peer.close()
            raise not_found("session", session.id)
        self._sessions.watched(session)
        return viewer

    def _joined(self, session: Session, viewer: Viewer, offer: str) -> Viewer:
        viewer.ice.begin(offer)
        session.viewers[viewer.id] = viewer
        return viewer

    def get(self, session: Session, viewer_id: str) -> Viewer:
        """Raises ApiError 404."""
        viewer = session.viewers.get(viewer_id)
        if viewer is None or viewer.peer.closed:
            raise not_found("viewer", viewer_id)
        return viewer

    async def leave(self, session: Session, viewer: Viewer) -> None:
        session.viewers.pop(viewer.id, None)
        await viewer.peer.close()
        session.note_viewers(time.monotonic())
