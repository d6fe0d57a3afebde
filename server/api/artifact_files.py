"""The file of a job or a recording as an answer: from a folder, through from a bucket, or where it
can be had.

Ranges, ETag and HEAD are understood of all. A download keeps its files from being evicted. What it
is not: which one, or whether it has ended (videos.py, recordings_routes.py).
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path

from fastapi import Request, Response
from starlette.responses import RedirectResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from onbeat.server.api.errors import ApiError
from onbeat.server.api.front import Front
from onbeat.server.api.media_file import MediaFile, check_range
from onbeat.server.jobs.artifacts import Artifacts, LocalFile, RemoteFile
from onbeat.server.jobs.formats import Format, Variant, artifact_name, media_type
from onbeat.server.jobs.job import Job

log = logging.getLogger("onbeat.api")


async def artifact_response(front: Front, request: Request, job: Job, variant: Variant) -> Response:
    """Raises ApiError: 410 if the file is gone, 503 if the store cannot be reached, 416."""
    return await _response(front, request, job.id, variant, job.request.format, "video")


async def recording_response(
    front: Front, request: Request, recording_id: str, format: Format
) -> Response:
    """Raises as `artifact_response`."""
    return await _response(front, request, recording_id, "video", format, "recording")


def unreachable(error: OSError) -> ApiError:
    """What is said when the store fails. Addresses and names inside it are for the log alone."""
    log.warning("the store of results failed: %s", error)
    message = "The store of results cannot be reached at this moment."
    return ApiError(503, "storage_unreachable", message, headers={"retry-after": "5"})


async def _response(
    front: Front, request: Request, job_id: str, variant: Variant, format: Format, what: str
) -> Response:
    try:
        found = await asyncio.to_thread(front.artifacts.find, job_id, variant, format)
    except OSError as error:
        raise unreachable(error) from error
    name, kind = artifact_name(job_id, variant, format), media_type(variant, format)
    match found:
        case None:
            raise gone(what)
        case LocalFile(path=path):
            try:
                return HeldFile(path, kind, front.artifacts, job_id)
            except FileNotFoundError as error:  # evicted just now
                raise gone(what) from error
        case RemoteFile():
            if front.settings.artifacts_redirect:
                return RedirectResponse(await asyncio.to_thread(found.signed_url), 307)
            return _through(front.artifacts, request, found, job_id, name, kind)


def gone(what: str, param: str | None = None) -> ApiError:
    """Of a job or a recording whose file was removed."""
    message = f"The file of this {what} is not there any more."
    return ApiError(410, "content_gone", message, param=param)


class HeldFile(MediaFile):
    """A file that is not evicted while it is sent."""

    def __init__(self, path: Path, media_type: str, artifacts: Artifacts, job_id: str) -> None:
        super().__init__(
            path,
            media_type=media_type,
            filename=path.name,
            content_disposition_type="inline",
            stat_result=path.stat(),
        )
        self._artifacts, self._job_id = artifacts, job_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._artifacts.holding(self._job_id):
            await super().__call__(scope, receive, send)


def _through(
    artifacts: Artifacts, request: Request, found: RemoteFile, job_id: str, name: str, kind: str
) -> Response:
    """The object's bytes as they come; one range at a time, several are answered with all."""
    headers = {
        "accept-ranges": "bytes",
        "etag": found.etag,
        "last-modified": formatdate(found.modified, usegmt=True),
        "content-disposition": f'inline; filename="{name}"',
    }
    part = _asked(request, found)
    start, end = part or (0, found.size)
    headers["content-length"] = str(end - start)
    if part is not None:
        headers["content-range"] = f"bytes {start}-{end - 1}/{found.size}"
    status = 200 if part is None else 206
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=kind)

    async def body() -> AsyncIterator[bytes]:
        with artifacts.holding(job_id):
            async for piece in found.stream(start, end):
                yield piece

    return StreamingResponse(body(), status, headers=headers, media_type=kind)


def _asked(request: Request, found: RemoteFile) -> tuple[int, int] | None:
    """The bytes [start, end) that are asked for; None for all. Raises ApiError 416."""
    condition, asked = request.headers.get("if-range"), request.headers.get("range", "")
    other = condition is not None and condition != found.etag
    if other or not asked.strip().lower().startswith("bytes"):
        return None
    check_range(asked, found.size)
    pairs = re.findall(r"(\d*)-(\d*)", asked)
    if len(pairs) > 1:
        return None
    first, last = pairs[0]
    if not first:
        return max(0, found.size - int(last)), found.size
    return int(first), min(int(last) + 1 if last else found.size, found.size)
