"""Keys by which a client makes sure that a request sent twice makes one job.

Draft-ietf-httpapi-idempotency-key-header-07. A key belongs to its owner, lasts a day, and stands in
the transaction that adds the job. What it is not: the header, or its errors (api/once.py).
"""

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from onbeat.server.jobs.job import Job
from onbeat.server.jobs.table import jobs, metadata

KEPT_SECONDS = 24 * 3600.0

idempotency = sa.Table(
    "idempotency",
    metadata,
    sa.Column("owner", sa.String(64), primary_key=True),
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("job_id", sa.String(64), nullable=False, index=True),
    sa.Column("created_at", sa.Float, nullable=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """A key, whose it is, and a hash of what was asked for under it."""

    owner: str
    key: str
    fingerprint: str


class KeyTaken(Exception):
    """The key made a job already; `same`: of the same request."""

    def __init__(self, job_id: str, same: bool) -> None:
        super().__init__(job_id)
        self.job_id = job_id
        self.same = same


def check(connection: sa.Connection, once: Once, now: float) -> None:
    """Raises KeyTaken. A key that is over, or whose job was deleted, is free."""
    mine = (idempotency.c.owner == once.owner, idempotency.c.key == once.key)
    query = sa.select(idempotency).join(jobs, jobs.c.id == idempotency.c.job_id).where(*mine)
    row = connection.execute(query).one_or_none()
    if row is not None and row.created_at > now - KEPT_SECONDS:
        raise KeyTaken(row.job_id, row.fingerprint == once.fingerprint)


def beside(once: Once) -> Callable[[sa.Connection, Job], None]:
    """What `JobStore.add` takes to keep the key with the job. Raises KeyTaken, and on Postgres
    sqlalchemy.exc.IntegrityError if another request with this key is added at this moment."""

    def write(connection: sa.Connection, job: Job) -> None:
        check(connection, once, job.created_at)
        stale = idempotency.c.created_at <= job.created_at - KEPT_SECONDS
        mine = sa.and_(idempotency.c.owner == once.owner, idempotency.c.key == once.key)
        connection.execute(sa.delete(idempotency).where(stale | mine))
        values = {
            "owner": once.owner,
            "key": once.key,
            "fingerprint": once.fingerprint,
            "job_id": job.id,
            "created_at": job.created_at,
        }
        connection.execute(sa.insert(idempotency).values(values))

    return write


def forget(connection: sa.Connection, job_id: str) -> None:
    connection.execute(sa.delete(idempotency).where(idempotency.c.job_id == job_id))
