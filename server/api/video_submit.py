"""A request for a video into the queue: once per key, if there is room. And waiting for its end.

What it is not: the routes (videos.py, video_more.py), or the checking of fields (video_request.py).
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import Request
from sqlalchemy.exc import IntegrityError

from onbeat.server.api.errors import ApiError, not_found, unavailable
from onbeat.server.api.front import Front
from onbeat.server.api.once import earlier, replayed
from onbeat.server.api.video_request import check_webhook, with_input
from onbeat.server.api.video_view import Beside, beside_of
from onbeat.server.jobs import idempotency, inputs, webhooks
from onbeat.server.jobs.idempotency import KeyTaken, Once
from onbeat.server.jobs.job import Job, JobRequest
from onbeat.server.jobs.keeping import NoRoom
from onbeat.server.jobs.room import QueueFull, Room, ShareFull
from onbeat.server.jobs.store import Beside as Written

LOOK_SECONDS = (0.05, 0.5)
MAX_WAIT_SECONDS = 120
BUSY_SECONDS = 10
"""After which a full queue may have room."""
WAIT = re.compile(r'(?:^|,)\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[;,]|$)', re.IGNORECASE)

Made = tuple[JobRequest, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """`beside`: what is shown with it, of a new one."""

    job: Job
    new: bool = False
    beside: Beside | None = None


async def submit(front: Front, once: Once | None, make: Callable[[], Awaitable[Made]]) -> Submitted:
    """The job, which may be there already; on disk when this returns.

    make: the request and its packed media; not called for a request that was sent before.
    Raises ApiError: 422, 429 while too many of its key wait, 503 while too many wait in all, 507
    without room for the result.
    """
    found = await earlier(front.store, once)
    if found is not None:
        return Submitted(job=found)
    request, data = await make()
    await check_webhook(request.webhook_url, front.networks)
    try:
        made = await asyncio.to_thread(_add, front, with_input(request, data), data, once)
    except NoRoom as error:
        raise ApiError(507, "insufficient_storage", str(error)) from error
    except KeyTaken as taken:  # the same request, at the same moment
        again = await replayed(front.store, taken)
        if again is None:
            raise unavailable("busy", "Its job was deleted just now.", retry_after=1) from taken
        return Submitted(job=again)
    except QueueFull as full:
        wait = "1 job waits" if full.waiting == 1 else f"{full.waiting} jobs wait"
        said = f"{wait}, the most allowed (max_jobs_queued)."
        raise unavailable("capacity", said, retry_after=BUSY_SECONDS) from full
    except ShareFull as full:
        raise _share_full(front, full.waiting) from full
    front.worker.wake()
    return made


def _share_full(front: Front, waiting: int) -> ApiError:
    settings = front.settings
    limit = "the most that one key may have"
    if not settings.max_jobs_queued_per_key:
        limit = f"the most that one may have at this moment of {settings.max_jobs_queued}"
    count = "1 job of this key waits" if waiting == 1 else f"{waiting} jobs of this key wait"
    said = f"{count}, {limit} (max_jobs_queued_per_key)."
    after = {"retry-after": str(BUSY_SECONDS)}
    told = {"retry_after": BUSY_SECONDS, "waiting": waiting}
    return ApiError(429, "key_queue_full", said, param="authorization", headers=after, extra=told)


def _add(front: Front, request: JobRequest, data: bytes | None, once: Once | None) -> Submitted:
    """All that may wait for a disk, in one thread: each way through one more is a turn of waiting
    for all others."""
    front.artifacts.check_room()
    beside: list[Written] = []
    if once is not None:
        beside.append(idempotency.beside(once))
    if data is not None:
        beside.append(inputs.beside(data))
    if request.webhook_url is not None:
        beside.append(webhooks.beside(request.webhook_url))
    settings = front.settings
    room = Room(most=settings.max_jobs_queued, of_a_key=settings.max_jobs_queued_per_key)
    try:
        job = front.store.add(request, beside, room=room)
        return Submitted(job=job, new=True, beside=beside_of(front.store, [job]))
    except IntegrityError:  # another server took the key between our look and our writing
        if once is None:
            raise
        with front.store.database.reading() as connection:
            idempotency.check(connection, once, time.time())
        raise


async def job_of(front: Front, video_id: str) -> Job:
    """Raises ApiError 404."""
    job = await asyncio.to_thread(front.store.get, video_id)
    if job is None:
        raise not_found("video", video_id)
    return job


def wanted_wait(prefer: str | None) -> float:
    """Seconds of `Prefer: wait=N` (RFC 7240, 4.3), at most MAX_WAIT_SECONDS; 0 without it."""
    found = WAIT.search(prefer or "")
    return 0.0 if found is None else float(min(MAX_WAIT_SECONDS, int(found[1])))


async def wait_for(front: Front, job: Job, seconds: float, request: Request) -> Job:
    """The job as it is when it has ended, when time is up, or when the client has left.

    Raises ApiError 404 if it is deleted meanwhile.
    """
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + seconds, LOOK_SECONDS[0]
    while not job.ended and loop.time() < deadline and not await request.is_disconnected():
        await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
        pause = min(2 * pause, LOOK_SECONDS[1])
        job = await job_of(front, job.id)
    return job


async def cancelled(front: Front, job: Job) -> Job | None:
    """Ends it, if it has not ended; the job as it is now, None if it was deleted."""
    ran = front.worker.seconds(job.id) or 0.0
    after = await asyncio.to_thread(front.store.cancel, job.id)
    if after is not None and after.state == "cancelled" and not job.ended:
        front.worker.stop_job(job.id)
        front.metrics.job_finished("cancelled", ran)
    return after
