"""The messages of a viewer's data channel: steered, forked, pictures kept, presence noted.

Everything wrong is answered, never raised. Pings, the size of messages and floods are the peer's
own business. What it is not: the joining (viewers.py), or what the messages hold (steering.py).
"""

import asyncio
import logging
import math
import time
from typing import Any

from onbeat.server.api.errors import ApiError
from onbeat.server.api.forks import fork
from onbeat.server.api.frames import LONGEST, seen_frames
from onbeat.server.api.session import Session, Viewer
from onbeat.server.api.sessions import SessionManager
from onbeat.server.api.steering import (
    MESSAGES,
    Control,
    ForkMessage,
    PresenceMessage,
    SnapshotMessage,
    parse,
)
from onbeat.server.api.throttle import CONTROLS_PER_SECOND, Ids

log = logging.getLogger("onbeat.api")

MAX_CLIENT_STATS = 32
MAX_STAT_NAME = 40


class Channels:
    """All viewers' channels. Runs on the event loop."""

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions
        self._tasks: set[asyncio.Task[None]] = set()

    def message(self, session: Session, viewer: Viewer, message: dict[str, Any]) -> None:
        """One message of a viewer."""
        try:
            self._dispatch(session, viewer, message)
        except ApiError as error:
            _refuse(viewer, message.get("id"), error)

    def _dispatch(self, session: Session, viewer: Viewer, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "stats":
            self._reported(session, viewer, message)
        if kind in ("stats", "seen"):
            self._seen(session, viewer, message)
            return
        if not isinstance(kind, str) or kind not in MESSAGES:
            allowed = ", ".join(sorted([*MESSAGES, "ping", "seen", "stats"]))
            text = f"type: {kind!r:.40} is not allowed; allowed: {allowed}"
            raise ApiError(422, "unknown_message", text, param="type")
        match parse(message):
            case Control() as control:
                self._control(session, viewer, control)
            case ForkMessage() as asked:
                self._start(self._fork(session, viewer, asked))
            case SnapshotMessage(id=identifier):
                self._snapshot(session, viewer, identifier)
            case PresenceMessage(visible=visible, playing=playing):
                self._present(session, viewer, visible and playing)

    # ---- controls ------------------------------------------------------------------------------

    def _control(self, session: Session, viewer: Viewer, control: Control) -> None:
        self._sessions.check(session, control)

        def send(ready: Control, ids: Ids) -> None:
            self._steer(session, viewer, ready, ids)

        if viewer.throttle.take(control, send):
            return
        text = (
            f"more than {CONTROLS_PER_SECOND:g} controls a second: it waits, and goes with the "
            "later ones; the last value of a field wins"
        )
        raise ApiError(429, "rate_limited", text, extra={"held": True})

    def _steer(self, session: Session, viewer: Viewer, control: Control, ids: Ids) -> None:
        if session.state == "closed" or viewer.peer.closed:
            return
        try:
            revision = self._sessions.control(session, control)
        except ApiError as error:
            _refuse(viewer, ids[-1] if ids else None, error)
            return
        viewer.asked[revision] = ids
        identifier = ids[-1] if ids else None
        viewer.peer.send({"type": "accepted", "id": identifier, "ids": ids, "revision": revision})

    # ---- forks and pictures --------------------------------------------------------------------

    async def _fork(self, session: Session, viewer: Viewer, asked: ForkMessage) -> None:
        try:
            made = await fork(self._sessions, session, asked, owner=session.owner)
        except ApiError as error:
            _refuse(viewer, asked.id, error)
            return
        view = made.view().model_dump()
        viewer.peer.send({"type": "forked", "id": asked.id, "session": view})

    def _snapshot(self, session: Session, viewer: Viewer, identifier: str | int | None) -> None:
        number, picture = session.pictures.keep(time.monotonic())
        answer = {
            "type": "snapshot",
            "id": identifier,
            "url": f"/v1/sessions/{session.id}/snapshots/{number}",
            "chunk": picture.chunk,
            "media_time": picture.media_time,
        }
        viewer.peer.send(answer)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a message could not be handled", exc_info=task.exception())

    # ---- what the viewer's side says of itself -------------------------------------------------

    def _reported(self, session: Session, viewer: Viewer, message: dict[str, Any]) -> None:
        before, viewer.stats = viewer.stats, client_stats(message)
        viewer.link.report(viewer.stats, time.monotonic())
        self._sessions.tell("reported", session, (viewer.stats, before))
        visible, playing = message.get("visible"), message.get("playing")
        if isinstance(visible, bool):
            self._present(session, viewer, visible and playing is not False)

    def _seen(self, session: Session, viewer: Viewer, message: dict[str, Any]) -> None:
        """Tells of the records of the pictures that it names, with its half."""
        frames, way = session.meter.frames, one_way(viewer)
        told = seen_frames(message, time.monotonic())
        given = [(viewer.peer.media_pts(frame.rtp_timestamp), frame) for frame in told]
        found = [frames.viewed(pts, way, frame) for pts, frame in given if pts is not None]
        if records := [record for record in found if record is not None]:
            self._sessions.tell("viewed", session, records)

    def _present(self, session: Session, viewer: Viewer, here: bool) -> None:
        if viewer.away == (not here):
            return
        viewer.away = not here
        rested = session.auto_paused
        self._sessions.watched(session)
        if here and rested:
            session.broadcast.refresh()


def _refuse(viewer: Viewer, identifier: object, error: ApiError) -> None:
    shown = identifier if isinstance(identifier, (str, int)) else None
    viewer.peer.send({"type": "error", "id": shown, "error": error.body()})


def one_way(viewer: Viewer) -> float | None:
    """Seconds from here to the viewer: half of a round trip, as its browser or RTCP knows it."""
    told = viewer.stats.get("rtt_ms", -1.0)
    trip = told / 1e3 if 0 <= told <= 1e3 * LONGEST else viewer.peer.link().round_trip
    return None if trip is None else trip / 2


def client_stats(message: dict[str, Any]) -> dict[str, float]:
    """The numbers of a browser's report, bounded in count and length of names."""
    numbers = {
        name: float(value)
        for name, value in message.items()
        if isinstance(value, (int, float))
        and math.isfinite(value)
        and len(name) <= MAX_STAT_NAME
        and name.isascii()
    }
    return dict(list(numbers.items())[:MAX_CLIENT_STATS])
