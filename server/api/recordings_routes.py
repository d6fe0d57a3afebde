"""Recordings over HTTP: begun on a session, listed, ended, downloaded with ranges, deleted."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from onbeat.server.api.artifact_files import gone, recording_response, unreachable
from onbeat.server.api.body import json_body, no_body, schema_of
from onbeat.server.api.errors import ApiError
from onbeat.server.api.front import FrontDep, SessionDep
from onbeat.server.api.media_file import MediaFile
from onbeat.server.api.paging import PageDep
from onbeat.server.api.recordings import RecordingCreate, RecordingPage, RecordingView

router = APIRouter(tags=["recordings"])


class RecordingDeleted(BaseModel):
    id: str
    object: Literal["recording.deleted"] = "recording.deleted"
    deleted: bool = True


@router.post(
    "/v1/sessions/{session_id}/recordings",
    status_code=201,
    operation_id="create_recording",
    openapi_extra=schema_of(RecordingCreate),
)
async def create_recording(
    front: FrontDep,
    session: SessionDep,
    body: Annotated[RecordingCreate, Depends(json_body(RecordingCreate))],
) -> RecordingView:
    """Records from the next picture on; 409 if a recording runs, 507 if there is no room."""
    return await front.recordings.begin(session, body)


@router.get("/v1/sessions/{session_id}/recordings", operation_id="list_session_recordings")
async def list_session_recordings(
    front: FrontDep, session_id: str, query: PageDep
) -> RecordingPage:
    """Of one session by age, page by page; also after the session's end."""
    if not front.recordings.any_of(session_id):
        front.sessions.get(session_id)
    return front.recordings.page(query, session_id)


@router.get("/v1/recordings", operation_id="list_recordings")
async def list_recordings(front: FrontDep, query: PageDep) -> RecordingPage:
    """Of all sessions by age, page by page."""
    return front.recordings.page(query)


@router.get("/v1/recordings/{recording_id}", operation_id="get_recording")
async def get_recording(front: FrontDep, recording_id: str) -> RecordingView:
    return front.recordings.view(front.recordings.get(recording_id))


@router.post(
    "/v1/recordings/{recording_id}/stop",
    operation_id="stop_recording",
    dependencies=[Depends(no_body)],
)
async def stop_recording(front: FrontDep, recording_id: str) -> RecordingView:
    """Ends it; answers when its file is final, or the place for it cannot be reached."""
    return await front.recordings.stop(recording_id)


@router.delete("/v1/recordings/{recording_id}", operation_id="delete_recording")
async def delete_recording(front: FrontDep, recording_id: str) -> RecordingDeleted:
    """Ends it if it runs, and removes its file."""
    try:
        await front.recordings.delete(recording_id)
    except OSError as error:
        raise unreachable(error) from error
    return RecordingDeleted(id=recording_id)


@router.head("/v1/recordings/{recording_id}/content", include_in_schema=False)
@router.get(
    "/v1/recordings/{recording_id}/content",
    operation_id="recording_content",
    response_class=MediaFile,
)
async def recording_content(front: FrontDep, request: Request, recording_id: str) -> Response:
    """The file; ranges and ETag are understood."""
    info = front.recordings.get(recording_id)
    if info.status == "failed":
        message = f"The recording has no content: {info.reason}."
        raise ApiError(409, "recording_failed", message, param="id")
    if info.status == "expired":
        raise gone("recording")
    if info.status != "completed":
        message = f"The recording is not ready yet: {info.status}, {info.seconds:.0f} s."
        headers = {"retry-after": "1"}
        raise ApiError(409, "recording_not_ready", message, param="id", headers=headers)
    return await recording_response(front, request, info.id, info.format)
