"""The tables that stand beside `jobs`: inputs, idempotency keys, webhooks. Emptied here."""

import sqlalchemy as sa

from onbeat.server.jobs import idempotency, inputs, webhooks


def forget(connection: sa.Connection, job_id: str) -> None:
    """Whatever is kept of a job that is deleted."""
    inputs.forget(connection, job_id)
    idempotency.forget(connection, job_id)
    webhooks.forget(connection, job_id)
