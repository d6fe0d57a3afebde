"""More ways to a video: remixes, extensions, edits, and one request for the file itself."""

import asyncio
import math
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from onbeat.server.api.artifact_files import artifact_response, gone, unreachable
from onbeat.server.api.body import FORM_TYPE, JSON_TYPE, json_body, json_or_form_body, schema_of
from onbeat.server.api.errors import ApiError
from onbeat.server.api.front import FrontDep
from onbeat.server.api.limits import check_model, served
from onbeat.server.api.media_file import MediaFile
from onbeat.server.api.once import REPLAYED, OnceDep
from onbeat.server.api.reference import packed_tail
from onbeat.server.api.video_request import remixed, resolve
from onbeat.server.api.video_schema import (
    Video,
    VideoCreate,
    VideoEdit,
    VideoExtension,
    VideoRemix,
)
from onbeat.server.api.video_submit import Made, cancelled, job_of, submit, wait_for
from onbeat.server.api.video_view import BaseDep, shown
from onbeat.server.api.videos import CreateDep, Making, check_content
from onbeat.server.jobs import inputs
from onbeat.server.jobs.job import Job

router = APIRouter(prefix="/v1/videos", tags=["videos"])

VIDEO = frozenset({"video"})
RemixDep = Annotated[VideoRemix, Depends(json_body(VideoRemix))]
ExtensionDep = Annotated[VideoExtension, Depends(json_or_form_body(VideoExtension, VIDEO))]
EditDep = Annotated[VideoEdit, Depends(json_or_form_body(VideoEdit, VIDEO))]


@router.post(
    "/sync",
    operation_id="sync_video",
    response_class=MediaFile,
    openapi_extra=schema_of(VideoCreate, JSON_TYPE, FORM_TYPE),
)
async def sync_video(
    front: FrontDep, body: CreateDep, request: Request, header: OnceDep
) -> Response:
    """A job whose answer is its file, once it is there; who leaves before ends the job."""
    made = await submit(front, header.once("sync", body), Making(front, body, header.owner))
    job = await wait_for(front, made.job, math.inf, request)
    if not job.ended:
        await cancelled(front, job)
        raise ApiError(409, "video_cancelled", "The client has left.")
    if job.state == "failed":
        status = 422 if job.error_code == "invalid_prompt" else 500
        raise ApiError(status, job.error_code or "failed", job.error_message or "It failed.")
    check_content(job)
    answer = await artifact_response(front, request, job, "video")
    answer.headers["x-video-id"] = job.id
    answer.headers["location"] = f"/v1/videos/{job.id}"
    if not made.new:
        answer.headers.update(REPLAYED)
    return answer


@router.post(
    "/extensions",
    operation_id="extend_video",
    openapi_extra=schema_of(VideoExtension, JSON_TYPE, FORM_TYPE),
)
async def extend_video(
    front: FrontDep, base: BaseDep, body: ExtensionDep, response: Response, header: OnceDep
) -> Video:
    """What comes after a video, by the model's own memory of its end: the new part alone."""

    async def make() -> Made:
        ready = served(front.hub)
        request = resolve(body, ready, front.settings.max_video_seconds, header.owner)
        parent, data = None, body.video
        if isinstance(data, str):
            source = await _completed(front, data)
            parent, data = source.id, await _file(front, source)
        request = msgspec.structs.replace(request, kind="extension", parent=parent)
        return request, await packed_tail(data, ready, "video")

    made = await submit(front, header.once("extension", body), make)
    if not made.new:
        response.headers.update(REPLAYED)
    return await shown(front, base, made.job, response, made.beside)


@router.post(
    "/edits", operation_id="edit_video", openapi_extra=schema_of(VideoEdit, JSON_TYPE, FORM_TYPE)
)
async def edit_video(front: FrontDep, body: EditDep) -> Video:
    """No served model can change a finished video; always refused, with what can be done."""
    ready = served(front.hub)
    check_model(body.model, ready)
    message = f"video: {ready.model} does not edit finished videos; allowed: an extension, a remix"
    if ready.takes_reference:
        message += ", or a live session of mode 'video-to-video'"
    raise ApiError(422, "unsupported_operation", message, param="video")


@router.post(
    "/{video_id}/remix", operation_id="remix_video", openapi_extra=schema_of(VideoRemix, JSON_TYPE)
)
async def remix_video(
    front: FrontDep,
    base: BaseDep,
    video_id: str,
    body: RemixDep,
    response: Response,
    header: OnceDep,
) -> Video:
    """The same video under another prompt: seed, length and beginning are kept."""

    async def make() -> Made:
        source = await _completed(front, video_id)
        request = remixed(body, source.id, source.request, served(front.hub), header.owner)
        return request, await asyncio.to_thread(_input, front, source)

    made = await submit(front, header.once(f"remix {video_id}", body), make)
    if not made.new:
        response.headers.update(REPLAYED)
    return await shown(front, base, made.job, response, made.beside)


async def _completed(front: FrontDep, video_id: str) -> Job:
    job = await job_of(front, video_id)
    check_content(job)
    return job


async def _file(front: FrontDep, source: Job) -> bytes:
    try:
        return await asyncio.to_thread(
            front.artifacts.read, source.id, "video", source.request.format
        )
    except FileNotFoundError as error:
        raise gone("video", param="video") from error
    except OSError as error:
        raise unreachable(error) from error


def _input(front: FrontDep, source: Job) -> bytes | None:
    if not source.request.input_digest:
        return None
    with front.store.database.reading() as connection:
        return inputs.read(connection, source.id)
