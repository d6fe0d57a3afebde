"""Jobs as the API shows them: with their place, their estimate and what became of their webhook."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response

from onbeat.server.api.estimates import Load, poll_after_ms, seconds_left
from onbeat.server.api.front import Front
from onbeat.server.api.video_schema import Video
from onbeat.server.api.video_shape import view
from onbeat.server.jobs import events, webhooks
from onbeat.server.jobs.job import Job
from onbeat.server.jobs.store import JobStore
from onbeat.server.jobs.webhooks import Webhook

POLL_HEADER = "openai-poll-after-ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """By the job's id: its place in the queue, its webhook and the seconds left by its own pace,
    of those that have them."""

    places: Mapping[str, int | None]
    told: Mapping[str, Webhook]
    left: Mapping[str, float]


async def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


BaseDep = Annotated[str, Depends(_base)]
"""This server as the client calls it: some clients take `url` only whole."""


async def shown(
    front: Front,
    base: str,
    job: Job,
    response: Response | None = None,
    beside: Beside | None = None,
) -> Video:
    """One job; tells `response` when asking again is worth it. `beside`: if it was read already."""
    video = (await shown_all(front, base, [job], beside))[0]
    if response is not None and not job.ended:
        response.headers[POLL_HEADER] = str(poll_after_ms(video.eta_s))
    return video


async def shown_all(
    front: Front, base: str, jobs: Sequence[Job], beside: Beside | None = None
) -> list[Video]:
    if beside is None:
        beside = await asyncio.to_thread(beside_of, front.store, jobs)
    places, told, paced = beside.places, beside.told, beside.left
    load = load_of(front)
    lefts = [seconds_left(job, places[job.id], load, paced.get(job.id)) for job in jobs]
    return [
        view(job, places[job.id], told.get(job.id), left, base)
        for job, left in zip(jobs, lefts, strict=True)
    ]


def load_of(front: Front) -> Load:
    """What is known of the engine."""
    slots = front.settings.max_jobs_running
    return Load(ready=front.hub.ready, stats=front.hub.stats, slots=slots)


def beside_of(store: JobStore, jobs: Sequence[Job]) -> Beside:
    """What is shown of jobs and stands elsewhere. Reads the store."""
    told = [job.id for job in jobs if job.request.webhook_url is not None]
    running = {job.number: job.id for job in jobs if job.state == "in_progress"}
    hooks: dict[str, Webhook] = {}
    left: dict[int, float] = {}
    if told or running:
        with store.database.reading() as connection:
            hooks = webhooks.of_jobs(connection, told) if told else {}
            left = events.left_of(connection, running) if running else {}
    by_id = {running[number]: seconds for number, seconds in left.items()}
    return Beside(places=store.positions(jobs), told=hooks, left=by_id)
