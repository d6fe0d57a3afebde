"""Who is to be told of a job's end, and what became of it. At least once, never before the end.

The row is written with the job, and due once the job's row says that it has ended, so that no end
is missed whatever dies in between. Several servers share the work by short leases. What it is not:
the sending (api/webhooks.py).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from onbeat.server.jobs.job import ENDED, Job
from onbeat.server.jobs.table import jobs, metadata
from onbeat.server.vocabulary import new_id

LEASE_SECONDS = 60.0
"""A server that dies while it sends lets the others try after this."""

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
    sa.Index("webhooks_due", "state", "next_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """`event_id` is the same at every attempt. `attempts`: made so far. `next_at`: Unix seconds."""

    job_id: str
    url: str
    event_id: str
    state: WebhookState
    attempts: int
    next_at: float
    error: str | None


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


def _due(now: float) -> sa.Select[Any]:
    return (
        sa.select(webhooks)
        .join(jobs, jobs.c.id == webhooks.c.job_id)
        .where(webhooks.c.state == "pending", webhooks.c.next_at <= now, jobs.c.state.in_(ENDED))
    )


def any_due(connection: sa.Connection, now: float) -> bool:
    """Whether `claim_due` would find something; writes nothing."""
    return connection.execute(_due(now).limit(1)).first() is not None


def claim_due(connection: sa.Connection, now: float, limit: int) -> list[Webhook]:
    """Ends that are to be told now; for LEASE_SECONDS no other caller gets them."""
    query = _due(now).order_by(webhooks.c.next_at).limit(limit)
    claimed = []
    for row in connection.execute(query).all():
        mine = (webhooks.c.job_id == row.job_id, webhooks.c.next_at == row.next_at)
        change = sa.update(webhooks).where(*mine).values(next_at=now + LEASE_SECONDS)
        if connection.execute(change).rowcount == 1:
            claimed.append(Webhook(**row._mapping))
    return claimed


def settle(
    connection: sa.Connection,
    webhook: Webhook,
    state: WebhookState,
    *,
    next_at: float = 0.0,
    error: str | None = None,
) -> None:
    """Writes down an attempt: over, or to be made again at `next_at`."""
    values = {"attempts": webhook.attempts + 1, "state": state, "next_at": next_at, "error": error}
    mine = webhooks.c.job_id == webhook.job_id
    connection.execute(sa.update(webhooks).where(mine).values(values))


def of_jobs(connection: sa.Connection, ids: Collection[str]) -> dict[str, Webhook]:
    """By the job's id; jobs without one are left out."""
    rows = connection.execute(sa.select(webhooks).where(webhooks.c.job_id.in_(ids)))
    return {row.job_id: Webhook(**row._mapping) for row in rows}


def forget(connection: sa.Connection, job_id: str) -> None:
    connection.execute(sa.delete(webhooks).where(webhooks.c.job_id == job_id))
