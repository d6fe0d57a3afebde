"""/v1/videos: durable jobs in the OpenAI wire format, and their files.

The store is on disk, so its calls run in worker threads. What it is not: the running of jobs, or
the routes beyond the plain ones (video_more.py, video_events.py).
"""

import asyncio
import logging
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response

from onbeat.server.api.artifact_files import artifact_response, unreachable
from onbeat.server.api.body import FORM_TYPE, JSON_TYPE, json_or_form_body, no_body, schema_of
from onbeat.server.api.errors import ApiError, not_found
from onbeat.server.api.front import FrontDep
from onbeat.server.api.limits import served
from onbeat.server.api.media_file import MediaFile
from onbeat.server.api.once import REPLAYED, OnceDep
from onbeat.server.api.paging import PageDep
from onbeat.server.api.reference import packed_reference
from onbeat.server.api.video_request import resolve
from onbeat.server.api.video_schema import Video, VideoCreate, VideoDeleted, VideoPage
from onbeat.server.api.video_submit import (
    Made,
    cancelled,
    job_of,
    submit,
    wait_for,
    wanted_wait,
)
from onbeat.server.api.video_view import BaseDep, shown, shown_all
from onbeat.server.jobs.formats import Variant
from onbeat.server.jobs.job import Job

log = logging.getLogger("onbeat.api")

router = APIRouter(prefix="/v1/videos", tags=["videos"])

INPUT = frozenset({"input_reference"})
CreateDep = Annotated[VideoCreate, Depends(json_or_form_body(VideoCreate, INPUT))]
PreferHeader = Annotated[str | None, Header(description="wait=SECONDS (RFC 7240)")]


@router.post(
    "", operation_id="create_video", openapi_extra=schema_of(VideoCreate, JSON_TYPE, FORM_TYPE)
)
async def create_video(
    front: FrontDep,
    body: CreateDep,
    request: Request,
    response: Response,
    header: OnceDep,
    base: BaseDep,
    prefer: PreferHeader = None,
) -> Video:
    """Queues a job; it is on disk when this answers. With `Prefer: wait=N` it answers when the job
    has ended, or after N seconds."""
    made = await submit(front, header.once("create", body), Making(front, body, header.owner))
    if not made.new:
        response.headers.update(REPLAYED)
    seconds = wanted_wait(prefer)
    if not seconds:
        return await shown(front, base, made.job, response, made.beside)
    response.headers["preference-applied"] = f"wait={seconds:.0f}"
    job = await wait_for(front, made.job, seconds, request)
    return await shown(front, base, job, response)


class Making:
    """What `submit` asks for: the request of a body, checked, and its packed media."""

    def __init__(self, front: FrontDep, body: VideoCreate, owner: str) -> None:
        self._front, self._body, self._owner = front, body, owner

    async def __call__(self) -> Made:
        ready = served(self._front.hub)
        longest = self._front.settings.max_video_seconds
        request = resolve(self._body, ready, longest, self._owner)
        given = self._body.input_reference
        return request, await packed_reference(given, ready, "input_reference")


@router.get("", operation_id="list_videos")
async def list_videos(front: FrontDep, base: BaseDep, query: PageDep) -> VideoPage:
    """Jobs by age, page by page."""
    try:
        found = await asyncio.to_thread(
            front.store.page,
            after=query.after,
            limit=query.limit + 1,
            newest_first=query.newest_first,
        )
    except KeyError as error:
        raise query.unknown("video") from error
    data = await shown_all(front, base, found[: query.limit])
    return VideoPage(
        data=data,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
        has_more=len(found) > query.limit,
    )


@router.get("/{video_id}", operation_id="get_video")
async def get_video(front: FrontDep, base: BaseDep, video_id: str, response: Response) -> Video:
    return await shown(front, base, await job_of(front, video_id), response)


@router.delete("/{video_id}", operation_id="delete_video")
async def delete_video(front: FrontDep, video_id: str) -> VideoDeleted:
    """Ends the job if it runs, and removes it and its files; it is still there after a 503."""
    had_ended = (await job_of(front, video_id)).ended
    try:
        if had_ended:
            await asyncio.to_thread(front.artifacts.remove, video_id)
        if not await asyncio.to_thread(front.store.delete, video_id):
            raise not_found("video", video_id)
        front.worker.stop_job(video_id)
        if not had_ended:
            await asyncio.to_thread(front.artifacts.remove, video_id)
    except OSError as error:
        if had_ended:
            raise unreachable(error) from error
        log.warning("files of %s may be left: %s", video_id, error)
    return VideoDeleted(id=video_id)


@router.post("/{video_id}/cancel", operation_id="cancel_video", dependencies=[Depends(no_body)])
async def cancel_video(front: FrontDep, base: BaseDep, video_id: str, response: Response) -> Video:
    """Ends a job that waits or runs; 409 if it has ended already in another way."""
    after = await cancelled(front, await job_of(front, video_id))
    if after is None:
        raise not_found("video", video_id)
    if after.state != "cancelled":
        message = f"The video has ended already: {after.state}."
        raise ApiError(409, "video_ended", message, param="id")
    return await shown(front, base, after, response)


@router.head("/{video_id}/content", include_in_schema=False)
@router.get("/{video_id}/content", operation_id="video_content", response_class=MediaFile)
async def video_content(
    front: FrontDep, request: Request, video_id: str, variant: Variant = "video"
) -> Response:
    """The file, its WebP thumbnail or its JPEG sheet; ranges and ETag are understood."""
    job = await job_of(front, video_id)
    check_content(job)
    return await artifact_response(front, request, job, variant)


def check_content(job: Job) -> None:
    """Raises ApiError: 409 unless it is completed, 410 if its files are gone."""
    if job.expired:
        raise ApiError(410, "content_gone", "The file of this video is not there any more.")
    if job.state == "completed":
        return
    if job.ended:
        message = f"The video has no content: it is {job.state}."
        raise ApiError(409, f"video_{job.state}", message, param="id")
    message = f"The video is not ready yet: {job.state}, {100 * job.progress:.0f} %."
    raise ApiError(409, "video_not_ready", message, param="id", headers={"retry-after": "1"})
