"""The server-sent events of WHEP (draft-ietf-wish-whep, Server Sent Events extension).

A player asks for a stream of events, is told where it is, and reads there: "active" while pictures
are made, "inactive" when they are not, "viewercount". What it is not: our own, richer events of a
session (sessions_routes.py).
"""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from onbeat.server.api.body import JSON_TYPE, expect_type, parsed_json
from onbeat.server.api.errors import ApiError, invalid, not_found
from onbeat.server.api.front import Front, FrontDep
from onbeat.server.api.peers import EVENTS
from onbeat.server.api.session import Session, Viewer
from onbeat.server.vocabulary import new_id

router = APIRouter(prefix="/v1/sessions/{session_id}/whep/{viewer_id}/events", tags=["webrtc"])

NEVER_SENT = ("layers",)
"""Names of the draft that players may list though nothing here sends them."""
MAX_STREAMS = 4
"""Of one viewer."""
Followed = tuple[Session, Viewer, str]


@router.post("", status_code=201, operation_id="open_viewer_events", response_class=Response)
async def open_events(
    front: FrontDep, session_id: str, viewer_id: str, request: Request
) -> Response:
    """Makes a stream of the events in the body, a JSON list; of all without a body."""
    session = front.sessions.get(session_id)
    viewer = front.viewers.get(session, viewer_id)
    wanted = await _wanted(request)
    if len(viewer.event_streams) >= MAX_STREAMS:
        message = f"This viewer has {MAX_STREAMS} streams of events, the most allowed."
        raise ApiError(409, "too_many_streams", message)
    stream_id = new_id("events")
    viewer.event_streams[stream_id] = wanted
    where = f"/v1/sessions/{session.id}/whep/{viewer.id}/events/{stream_id}"
    return Response(status_code=201, headers={"location": where})


async def _wanted(request: Request) -> frozenset[str]:
    body = await request.body()
    if not body:
        return frozenset(EVENTS)
    expect_type(request, JSON_TYPE)
    asked = parsed_json(body)
    known = [*EVENTS, *NEVER_SENT]
    if not isinstance(asked, list) or not asked or not all(each in known for each in asked):
        raise invalid("events", asked, f"allowed: a list of one or more of {', '.join(EVENTS)}")
    return frozenset(asked)


async def _followed(front: FrontDep, session_id: str, viewer_id: str, stream_id: str) -> Followed:
    session = front.sessions.get(session_id)
    viewer = front.viewers.get(session, viewer_id)
    if stream_id not in viewer.event_streams:
        raise not_found("stream", stream_id)
    return session, viewer, stream_id


FollowedDep = Annotated[Followed, Depends(_followed)]


@router.get("/{stream_id}", operation_id="viewer_events", response_class=EventSourceResponse)
async def events(front: FrontDep, followed: FollowedDep) -> AsyncIterator[ServerSentEvent]:
    """The events, one at a time, until the viewer leaves."""
    async for name, data in _changes(front, *followed):
        yield ServerSentEvent(data=data, event=name)


@router.delete("/{stream_id}", operation_id="close_viewer_events", response_class=Response)
async def close_events(followed: FollowedDep) -> Response:
    """Ends the stream; whoever reads it is told no more."""
    _, viewer, stream_id = followed
    del viewer.event_streams[stream_id]
    return Response(status_code=200)


async def _changes(
    front: Front, session: Session, viewer: Viewer, stream_id: str
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Each event when it happens; the state at first, though never that nothing is made yet."""
    active, count = False, -1
    while not viewer.peer.closed and session.state != "closed":
        wanted = viewer.event_streams.get(stream_id)
        if wanted is None:
            return
        was_active, active = active, session.status == "live"
        was_count, count = count, len(session.viewers)
        name = "active" if active else "inactive"
        if active != was_active and name in wanted:
            yield name, {}
        if count != was_count and "viewercount" in wanted:
            yield "viewercount", {"viewercount": count}
        async with front.ticked:
            await front.ticked.wait()
