"""A row of `jobs` to a `Job`, and a request to a new row. Plain; no statements."""

from typing import Any

import msgspec
import sqlalchemy as sa

from onbeat.server.jobs.job import Job, JobRequest
from onbeat.server.jobs.steady import Instant


def job_of(row: sa.Row[Any]) -> Job:
    return Job(
        number=row.number,
        id=row.id,
        state=row.state,
        request=msgspec.json.decode(row.request_json, type=JobRequest),
        attempt=row.attempt,
        fence=row.fence,
        strikes=row.strikes,
        progress=row.progress,
        checkpoint=row.checkpoint,
        recognised=msgspec.json.decode(row.recognised_json, type=list[str]),
        error_code=row.error_code,
        error_message=row.error_message,
        created_at=row.created_at,
        started_at=row.started_at,
        completed_at=row.completed_at,
        peak_memory_mb=row.peak_memory_mb,
        run_seconds=row.run_seconds,
        stages=msgspec.json.decode(row.stages_json, type=dict[str, float])
        if row.stages_json
        else {},
        result=msgspec.json.decode(row.result_json, type=dict[str, Any]) if row.result_json else {},
        expires_at=row.expires_at,
        expired=row.expired,
    )


def new_row(job_id: str, request: JobRequest, now: float, since: Instant) -> dict[str, Any]:
    return {
        "id": job_id,
        "state": "queued",
        "request_json": msgspec.json.encode(request),
        "seed": request.seed,
        "owner": request.owner,
        "priority": request.priority,
        "cost": float(request.frames),
        "created_at": now,
        "events": 1,
        **waits(since),
    }


def waits(since: Instant) -> dict[str, Any]:
    """Of a job that is queued from now on."""
    return {"waits_boot": since.boot, "waits_since": since.seconds}


def waited_of(row: sa.Row[Any], steady: Instant, wall: float) -> float:
    """How long it was queued: by a clock that does not step, if the machine ran all the time."""
    known = steady.since(row.waits_boot, row.waits_since)
    return max(0.0, wall - row.created_at) if known is None else known


def new_job(number: int, row: dict[str, Any], request: JobRequest) -> Job:
    """The job of a new row, as `job_of` would read it."""
    return Job(
        number=number,
        id=row["id"],
        state="queued",
        request=request,
        attempt=0,
        fence=0,
        strikes=0,
        progress=0.0,
        checkpoint=0,
        recognised=[],
        error_code=None,
        error_message=None,
        created_at=row["created_at"],
        started_at=None,
        completed_at=None,
        peak_memory_mb=None,
        run_seconds=None,
    )


def text_of(value: dict[str, Any] | None) -> str | None:
    return msgspec.json.encode(value).decode() if value else None
