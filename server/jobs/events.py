"""What happened to a job, in order: a row for each change, written in the change's transaction.

So whoever follows a job misses nothing and sees nothing that did not happen, also after a restart.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from onbeat.server.jobs.table import job_events

EventKind = Literal[
    "queued",
    "started",
    "restarted",
    "progress",
    "requeued",
    "completed",
    "failed",
    "cancelled",
    "expired",
]

NEW_EVENT = sa.insert(job_events)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """`seq` rises by one from event to event of a job, from 1; `at` in Unix seconds."""

    seq: int
    at: float
    kind: EventKind
    data: dict[str, Any]


def note(
    connection: sa.Connection,
    job: int,
    seq: int,
    at: float,
    kind: EventKind,
    data: Mapping[str, Any],
) -> None:
    """Adds an event; its number was taken from the job's row in the same transaction."""
    text = msgspec.json.encode(dict(data)).decode()
    values = {"job": job, "seq": seq, "at": at, "kind": kind, "data_json": text}
    connection.execute(NEW_EVENT, values)


def read(connection: sa.Connection, job: int, after: int) -> list[JobEvent]:
    """The events of a job behind number `after`, oldest first."""
    query = sa.select(job_events).where(job_events.c.job == job, job_events.c.seq > after)
    return [
        JobEvent(
            seq=row.seq,
            at=row.at,
            kind=row.kind,
            data=msgspec.json.decode(row.data_json, type=dict[str, Any]),
        )
        for row in connection.execute(query.order_by(job_events.c.seq))
    ]


def left_of(connection: sa.Connection, numbers: Collection[int]) -> dict[int, float]:
    """By job, of those whose attempt has a pace: seconds that were left when it last told."""
    kinds: tuple[EventKind, ...] = ("started", "restarted", "progress")
    events = job_events.c
    mine = (events.job.in_(numbers), events.kind.in_(kinds))
    last = sa.select(events.job, sa.func.max(events.seq).label("seq")).where(*mine)
    newest = last.group_by(events.job).subquery()
    same = sa.and_(newest.c.job == events.job, newest.c.seq == events.seq)
    rows = connection.execute(sa.select(events.job, events.data_json).join(newest, same))
    told = {row.job: msgspec.json.decode(row.data_json).get("eta_s") for row in rows}
    return {job: left for job, left in told.items() if left is not None}


def forget(connection: sa.Connection, job: int) -> None:
    connection.execute(sa.delete(job_events).where(job_events.c.job == job))
