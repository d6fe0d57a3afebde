"""/v1/sessions: open, list, look at, steer, close, and follow by server-sent events."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel

from onbeat.server.api.body import json_body, schema_of
from onbeat.server.api.forks import fork
from onbeat.server.api.front import Front, FrontDep, SessionDep
from onbeat.server.api.limits import check_session, seed_or_random, served, video_input
from onbeat.server.api.owner import OwnerDep
from onbeat.server.api.prompt_schema import prompt_of
from onbeat.server.api.reference import packed_reference
from onbeat.server.api.schemas import ControlView, SessionCreate, SessionView
from onbeat.server.api.session import Listener, Session
from onbeat.server.api.steering import Control, ForkCreate

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


class SessionList(BaseModel):
    object: str = "list"
    data: list[SessionView]


class SessionDeleted(BaseModel):
    id: str
    object: str = "session.deleted"
    deleted: bool = True


@router.post(
    "", status_code=201, operation_id="create_session", openapi_extra=schema_of(SessionCreate)
)
async def create_session(
    front: FrontDep,
    body: Annotated[SessionCreate, Depends(json_body(SessionCreate))],
    owner: OwnerDep,
) -> SessionView:
    """Opens a live session. If the device is full: 503 with the place that it would have, or with
    `wait` a session that is queued and becomes live by itself."""
    ready = served(front.hub)
    steps, prompt = check_session(body, ready), prompt_of(body.prompt)
    reference = await packed_reference(body.reference, ready)
    session = await front.sessions.open(
        ready=ready,
        prompt=prompt,
        reference=reference,
        seed=seed_or_random(body.seed),
        steps=steps,
        audio=body.audio,
        wait=body.wait,
        owner=owner,
        paused=body.paused,
        video_input=video_input(body),
        fit=body.fit,
        fps=body.fps,
    )
    return session.view()


@router.get("", operation_id="list_sessions")
async def list_sessions(front: FrontDep) -> SessionList:
    """Open sessions, oldest first."""
    return SessionList(data=[session.view() for session in front.sessions.all()])


@router.get("/{session_id}", operation_id="get_session")
async def get_session(session: SessionDep) -> SessionView:
    session.touched()
    return session.view()


@router.patch("/{session_id}", operation_id="control_session", openapi_extra=schema_of(Control))
async def control_session(
    front: FrontDep, session: SessionDep, body: Annotated[Control, Depends(json_body(Control))]
) -> ControlView:
    """Changes a running session; the answer names the chunk at which that takes effect."""
    session.may_steer()
    revision = front.sessions.control(session, body)
    applied = await front.sessions.applied(session, revision)
    view = session.view().model_dump() | {"revision": revision}
    return ControlView(
        **view,
        control_id=body.id,
        applied=applied is not None,
        chunk=applied.chunk if applied else None,
        media_time=applied.media_time if applied else None,
    )


@router.post(
    "/{session_id}/fork",
    status_code=201,
    operation_id="fork_session",
    openapi_extra=schema_of(ForkCreate),
)
async def fork_session(
    front: FrontDep,
    parent: SessionDep,
    body: Annotated[ForkCreate, Depends(json_body(ForkCreate))],
    owner: OwnerDep,
) -> SessionView:
    """A new session that goes on from where this one is; 409 before its first chunk is made."""
    return (await fork(front.sessions, parent, body, owner=owner)).view()


@router.delete("/{session_id}", operation_id="close_session")
async def close_session(front: FrontDep, session: SessionDep) -> SessionDeleted:
    await front.sessions.close(session, "closed")
    return SessionDeleted(id=session.id)


@router.get(
    "/{session_id}/events", operation_id="session_events", response_class=EventSourceResponse
)
async def session_events(front: FrontDep, session: SessionDep) -> AsyncIterator[ServerSentEvent]:
    """Status once a second, applied changes, and the end; one event per line of `data`."""
    async for message in _messages(front, session):
        yield ServerSentEvent(data=message, event=str(message["type"]))


async def _messages(front: Front, session: Session) -> AsyncIterator[dict[str, Any]]:
    listener = Listener()
    session.listeners.add(listener)
    ((_, status),) = front.statuses([session], session.created)
    listener.put(status)
    try:
        while True:
            await listener.wake.wait()
            listener.wake.clear()
            while listener.events:
                yield listener.events.popleft()
            if session.state == "closed":
                return
    finally:
        session.listeners.discard(listener)
