"""/v1/videos: durable jobs in the OpenAI wire format, and their files.

The store is on disk, so its calls run in worker threads. What it is not: the running of jobs.
"""

import asyncio
import time
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from onbeat.server.api.artifact_files import artifact_response
from onbeat.server.api.body import FORM_TYPE, JSON_TYPE, json_or_form_body, schema_of
from onbeat.server.api.errors import ApiError, not_found, unavailable
from onbeat.server.api.front import Front, FrontDep
from onbeat.server.api.limits import served
from onbeat.server.api.media_file import MediaFile
from onbeat.server.api.owner import OwnerDep
from onbeat.server.api.schemas import Strict
from onbeat.server.api.video_schema import (
    Video,
    VideoCreate,
    VideoDeleted,
    VideoPage,
    resolve,
    view,
)
from onbeat.server.jobs.formats import Variant
from onbeat.server.jobs.job import Job
from onbeat.server.jobs.keeping import NoRoom
from onbeat.server.jobs.store import QueueFull

router = APIRouter(prefix="/v1/videos", tags=["videos"])

POLL_MS = 1000
POLL_RANGE_MS = (200, 5000)


class PageQuery(Strict):
    after: str | None = None
    limit: Annotated[int, Query(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"


@router.post(
    "", operation_id="create_video", openapi_extra=schema_of(VideoCreate, JSON_TYPE, FORM_TYPE)
)
async def create_video(
    front: FrontDep,
    body: Annotated[VideoCreate, Depends(json_or_form_body(VideoCreate))],
    response: Response,
    owner: OwnerDep,
) -> Video:
    """Queues a job; it is on disk when this answers."""
    request = resolve(body, served(front.hub), front.settings.max_video_seconds, owner)
    await _check_room(front)
    try:
        job = await asyncio.to_thread(
            front.store.add, request, most_waiting=front.settings.max_jobs_queued
        )
    except QueueFull as full:
        said = f"{full.waiting} jobs wait, the most allowed."
        raise unavailable("capacity", said, retry_after=10) from full
    front.worker.wake()
    return await _shown(front, job, response)


@router.get("", operation_id="list_videos")
async def list_videos(front: FrontDep, query: Annotated[PageQuery, Query()]) -> VideoPage:
    """Jobs by age, page by page."""
    newest = query.order == "desc"
    try:
        found = await asyncio.to_thread(
            front.store.page, after=query.after, limit=query.limit + 1, newest_first=newest
        )
    except KeyError as error:
        message = f"after: no video with id {query.after!r}"
        raise ApiError(404, "video_not_found", message, param="after") from error
    page = found[: query.limit]
    places = await asyncio.to_thread(front.store.positions, page)
    data = [view(job, places[job.id]) for job in page]
    return VideoPage(
        data=data,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
        has_more=len(found) > query.limit,
    )


@router.get("/{video_id}", operation_id="get_video")
async def get_video(front: FrontDep, video_id: str, response: Response) -> Video:
    return await _shown(front, await _job(front, video_id), response)


@router.delete("/{video_id}", operation_id="delete_video")
async def delete_video(front: FrontDep, video_id: str) -> VideoDeleted:
    """Ends the job if it runs, and removes it and its files."""
    if not await asyncio.to_thread(front.store.delete, video_id):
        raise not_found("video", video_id)
    front.worker.stop_job(video_id)
    await asyncio.to_thread(front.artifacts.remove, video_id)
    return VideoDeleted(id=video_id)


@router.post("/{video_id}/cancel", operation_id="cancel_video")
async def cancel_video(front: FrontDep, video_id: str, response: Response) -> Video:
    """Ends a job that waits or runs; 409 if it has ended already in another way."""
    before = await _job(front, video_id)
    after = await asyncio.to_thread(front.store.cancel, video_id)
    if after is None:
        raise not_found("video", video_id)
    if after.state != "cancelled":
        message = f"The video has ended already: {after.state}."
        raise ApiError(409, "video_ended", message, param="id")
    front.worker.stop_job(video_id)
    if not before.ended:
        front.metrics.job_finished("cancelled", time.time() - before.created_at)
    return await _shown(front, after, response)


@router.head("/{video_id}/content", include_in_schema=False)
@router.get("/{video_id}/content", operation_id="video_content", response_class=MediaFile)
async def video_content(
    front: FrontDep, request: Request, video_id: str, variant: Variant = "video"
) -> Response:
    """The MP4 file, its WebP thumbnail or its JPEG sheet; ranges and ETag are understood."""
    job = await _job(front, video_id)
    if job.state != "completed":
        raise _no_content(job)
    return await artifact_response(front, request, job.id, variant)


async def _check_room(front: Front) -> None:
    """Raises ApiError 507 if the result could not be written."""
    try:
        await asyncio.to_thread(front.artifacts.check_room)
    except NoRoom as error:
        raise ApiError(507, "insufficient_storage", str(error)) from error


async def _job(front: Front, video_id: str) -> Job:
    job = await asyncio.to_thread(front.store.get, video_id)
    if job is None:
        raise not_found("video", video_id)
    return job


async def _shown(front: Front, job: Job, response: Response) -> Video:
    if not job.ended:
        response.headers["openai-poll-after-ms"] = str(poll_after(job, time.time()))
    return view(job, await asyncio.to_thread(front.store.position, job))


def poll_after(job: Job, now: float) -> int:
    """Milliseconds until asking again is worth it: half of what seems to be left."""
    if job.started_at is None or job.progress <= 0.0:
        return min(POLL_MS, 500) if job.state == "in_progress" else POLL_MS
    left = (now - job.started_at) * (1 - job.progress) / job.progress
    low, high = POLL_RANGE_MS
    return round(min(high, max(low, 500 * left)))


def _no_content(job: Job) -> ApiError:
    if job.ended:
        message = f"The video has no content: it is {job.state}."
        return ApiError(409, f"video_{job.state}", message, param="id")
    message = f"The video is not ready yet: {job.state}, {100 * job.progress:.0f} %."
    return ApiError(409, "video_not_ready", message, param="id", headers={"retry-after": "1"})
