"""What happens to a job, as server-sent events that a client can take up again where it left.

Each event has the number of the store's own (`id`), so `Last-Event-ID` leads on after it, on this
server or on another, before and after a restart. The place in the queue and the estimate come as
`waiting`, without a number. What it is not: the events themselves (jobs/events.py).
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import StreamingResponse

from onbeat.server.api.errors import invalid
from onbeat.server.api.estimates import seconds_left
from onbeat.server.api.front import Front, FrontDep
from onbeat.server.api.video_shape import percent
from onbeat.server.api.video_submit import job_of
from onbeat.server.api.video_view import BaseDep, load_of, shown
from onbeat.server.jobs.events import JobEvent
from onbeat.server.jobs.job import ENDED, Job

router = APIRouter(prefix="/v1/videos", tags=["videos"])

KEEPALIVE_SECONDS = 15.0
RETRY_MS = 1000
MAX_SEQ = 2**31 - 1
EVENT = {
    "type": "object",
    "properties": {
        "data": {"type": "string"},
        "event": {"type": "string"},
        "id": {"type": "string"},
        "retry": {"type": "integer", "minimum": 0},
    },
}
"""As OpenAPI 3.2 describes one event of a stream, and FastAPI those of its own streams."""
STREAM = {"description": "Events", "content": {"text/event-stream": {"itemSchema": EVENT}}}


UNKEPT = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""Headers of events: nobody on the way keeps them, no proxy holds them back."""


class EventStream(StreamingResponse):
    media_type = "text/event-stream"


@router.get(
    "/{video_id}/events",
    operation_id="video_events",
    response_class=EventStream,
    responses={200: STREAM, 204: {"description": "Everything was told already: do not come back"}},
)
async def video_events(
    front: FrontDep,
    base: BaseDep,
    video_id: str,
    last_event_id: Annotated[str | None, Header(description="number of the last one seen")] = None,
) -> Response:
    """`queued`, `started`, `restarted`, `progress`, `requeued`, `completed`, `failed`, `cancelled`;
    `waiting` while it is queued. Ends after the job's end."""
    job = await job_of(front, video_id)
    after = _seen(last_event_id)
    if job.ended and not await asyncio.to_thread(front.store.events, job, after):
        return Response(status_code=204)
    return EventStream(_told(front, base, job, after), headers=UNKEPT)


def _seen(last_event_id: str | None) -> int:
    if not last_event_id:
        return 0
    if not last_event_id.isdecimal() or not last_event_id.isascii():
        raise invalid("last-event-id", last_event_id, "allowed: the id of an event of this video")
    return min(int(last_event_id[:10]), MAX_SEQ)


async def _told(front: Front, base: str, job: Job, after: int) -> AsyncIterator[bytes]:
    place: int | None = None
    quiet_since = time.monotonic()
    while True:
        now = await asyncio.to_thread(front.store.get, job.id)
        if now is None:
            return
        job = now
        found = await asyncio.to_thread(front.store.events, job, after)
        for event in found:
            after = event.seq
            yield await _numbered(front, base, job, event)
            if event.kind in ENDED:
                return
        if job.ended and not found:
            return
        position = await asyncio.to_thread(front.store.position, job)
        if position is not None and position != place:
            yield _waiting(front, job, position)
        if found or position != place:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > KEEPALIVE_SECONDS:
            quiet_since = time.monotonic()
            yield KEEPALIVE_COMMENT
        place = position
        async with front.ticked:
            await front.ticked.wait()


async def _numbered(front: Front, base: str, job: Job, event: JobEvent) -> bytes:
    data: dict[str, Any] = {"video_id": job.id, "at": event.at, **event.data}
    if "progress" in data:
        data["progress"] = percent(data["progress"])
    if event.kind == "progress":
        data["eta_s"] = _left(front, job, data.get("eta_s"))
    if event.kind in ENDED:
        now = await asyncio.to_thread(front.store.get, job.id)
        if now is not None:
            data["video"] = (await shown(front, base, now)).model_dump()
    return _event(event.kind, data, str(event.seq))


def _left(front: Front, job: Job, paced: float | None) -> float | None:
    """Seconds that an event of its progress tells: at the pace that it tells, if it does."""
    if paced is not None or job.ended:
        return paced
    left = seconds_left(job, None, load_of(front))
    return None if left is None else round(left, 2)


def _waiting(front: Front, job: Job, position: int) -> bytes:
    left = seconds_left(job, position, load_of(front))
    data = {"queue_position": position, "eta_s": None if left is None else round(left, 2)}
    return _event("waiting", {"video_id": job.id, **data}, None)


def _event(kind: str, data: dict[str, Any], number: str | None) -> bytes:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return format_sse_event(data_str=text, event=kind, id=number, retry=RETRY_MS)
