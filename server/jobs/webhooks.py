"""Who is to be told of a job's end, and what became of it. At least once, never before the end.

The row is written with the job, and due once the job's row says that it has ended, so that no end
is missed whatever dies in between. Several servers share the work by short leases. When it is due
is measured on a clock that does not step (steady.py); on another machine, or after this one was
started anew, by the wall clock. A job that is deleted after its end is still told: the row has the
job then, and goes once it is told. What it is not: the sending (api/webhooks.py).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from onbeat.server.jobs.job import ENDED, Job
from onbeat.server.jobs.steady import Instant
from onbeat.server.jobs.table import jobs, metadata
from onbeat.server.vocabulary import new_id

LEASE_SECONDS = 60.0
"""A server that dies while it sends lets the others try after this."""
LONGEST_DELAY = 24 * 3600.0
"""Seconds between two attempts at most. One that seems to be further away was put off by a wall
clock that has been set back since, and is due."""

WebhookState = Literal["pending", "delivered", "given_up"]

webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("job_id", sa.String(64), primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("event_id", sa.String(64), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("next_at", sa.Float, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("due_boot", sa.String(64)),
    sa.Column("due_at", sa.Float),
    sa.Column("job_json", sa.LargeBinary),  # of a job that was deleted
    sa.Index("webhooks_due", "state", "next_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """`event_id` is the same at every attempt. `attempts`: made so far. `next_at`: Unix seconds,
    for people and other machines; `due_boot`, `due_at`: the same instant on the steady clock."""

    job_id: str
    url: str
    event_id: str
    state: WebhookState
    attempts: int
    next_at: float
    error: str | None
    due_boot: str | None = None
    due_at: float | None = None
    job_json: bytes | None = None

    @property
    def deleted(self) -> Job | None:
        """The job as it was when it was deleted; None if it was not."""
        return None if self.job_json is None else msgspec.json.decode(self.job_json, type=Job)


def beside(url: str) -> Callable[[sa.Connection, Job], None]:
    """What `JobStore.add` takes to have `url` told of the job's end."""

    def write(connection: sa.Connection, job: Job) -> None:
        values = {
            "job_id": job.id,
            "url": url,
            "event_id": new_id("evt"),
            "state": "pending",
            "attempts": 0,
            "next_at": 0.0,
        }
        connection.execute(sa.insert(webhooks).values(values))

    return write


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """This instant by both clocks: `wall` in Unix seconds."""

    wall: float
    steady: Instant

    def later(self, seconds: float) -> dict[str, Any]:
        """What a row says that is due so many seconds from now."""
        due = {"due_boot": self.steady.boot, "due_at": self.steady.seconds + seconds}
        return {"next_at": self.wall + seconds, **due}


def _due(now: Now) -> sa.Select[Any]:
    c = webhooks.c
    here = sa.and_(c.due_boot == now.steady.boot, c.due_at <= now.steady.seconds)
    by_wall = sa.or_(c.next_at <= now.wall, c.next_at > now.wall + LONGEST_DELAY)
    elsewhere = sa.and_(c.due_boot.is_distinct_from(now.steady.boot), by_wall)
    ended = sa.or_(jobs.c.state.in_(ENDED), c.job_json.is_not(None))
    pending = (c.state == "pending", sa.or_(here, elsewhere), ended)
    return sa.select(webhooks).outerjoin(jobs, jobs.c.id == c.job_id).where(*pending)


def any_due(connection: sa.Connection, now: Now) -> bool:
    """Whether `claim_due` would find something; writes nothing."""
    return connection.execute(_due(now).limit(1)).first() is not None


def claim_due(connection: sa.Connection, now: Now, limit: int) -> list[Webhook]:
    """Ends that are to be told now; for LEASE_SECONDS no other caller gets them."""
    query = _due(now).order_by(webhooks.c.next_at).limit(limit)
    claimed = []
    for row in connection.execute(query).all():
        mine = (webhooks.c.job_id == row.job_id, webhooks.c.next_at == row.next_at)
        change = sa.update(webhooks).where(*mine).values(now.later(LEASE_SECONDS))
        if connection.execute(change).rowcount == 1:
            claimed.append(Webhook(**row._mapping))
    return claimed


def settle(
    connection: sa.Connection,
    webhook: Webhook,
    state: WebhookState,
    *,
    due: dict[str, Any] | None = None,
    error: str | None = None,
) -> None:
    """Writes down an attempt: over, or to be made again when it is `due` (`Now.later`)."""
    values = {"attempts": webhook.attempts + 1, "state": state, "error": error} | (due or {})
    mine = webhooks.c.job_id == webhook.job_id
    connection.execute(sa.update(webhooks).where(mine).values(values))
    if state != "pending":  # nobody can ask any more what became of a deleted job's
        connection.execute(sa.delete(webhooks).where(mine, webhooks.c.job_json.is_not(None)))


def of_jobs(connection: sa.Connection, ids: Collection[str]) -> dict[str, Webhook]:
    """By the job's id; jobs without one are left out."""
    rows = connection.execute(sa.select(webhooks).where(webhooks.c.job_id.in_(ids)))
    return {row.job_id: Webhook(**row._mapping) for row in rows}


def forget(connection: sa.Connection, job: Job) -> None:
    """Of a job that is deleted, unless its end has still to be told."""
    mine, open_ = webhooks.c.job_id == job.id, webhooks.c.state == "pending"
    if job.ended:
        kept = sa.update(webhooks).where(mine, open_)
        connection.execute(kept.values(job_json=msgspec.json.encode(job)))
    connection.execute(sa.delete(webhooks).where(mine, webhooks.c.job_json.is_(None)))
