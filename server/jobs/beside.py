"""The tables that stand beside `jobs`: inputs, idempotency keys, webhooks. Emptied here."""

import sqlalchemy as sa

from onbeat.server.jobs import idempotency, inputs, webhooks
from onbeat.server.jobs.job import Job


def forget(connection: sa.Connection, job: Job) -> None:
    """Whatever is kept of a job that is deleted."""
    inputs.forget(connection, job.id)
    idempotency.forget(connection, job.id)
    webhooks.forget(connection, job)
