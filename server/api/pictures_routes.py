"""/v1/sessions/{id}/snapshot: the picture that is shown now, and those that were kept."""

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from onbeat.server.api.front import SessionDep
from onbeat.server.api.pictures import MEDIA_TYPE, Format, ShownPicture, encoded

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["sessions"])

FORMAT = Query(alias="format")


@router.get("/snapshot", operation_id="snapshot", response_class=Response)
async def snapshot(session: SessionDep, kind: Annotated[Format, FORMAT] = "png") -> Response:
    """The picture that is shown now; 409 before the first one."""
    picture = session.pictures.shown(time.monotonic())
    return await _file(picture, kind)


@router.get("/snapshots/{number}", operation_id="kept_snapshot", response_class=Response)
async def kept_snapshot(
    session: SessionDep, number: int, kind: Annotated[Format, FORMAT] = "png"
) -> Response:
    """A picture that a message "snapshot" kept."""
    picture = session.pictures.kept(number)
    return await _file(picture, kind)


async def _file(picture: ShownPicture, kind: Format) -> Response:
    headers = {
        "cache-control": "no-store",
        "x-onbeat-chunk": str(picture.chunk),
        "x-onbeat-media-time": f"{picture.media_time:.4f}",
    }
    data = await asyncio.to_thread(encoded, picture, kind)
    return Response(data, media_type=MEDIA_TYPE[kind], headers=headers)
