"""What jobs begin from: packed reference media (engine/reference.py), kept beside their rows.

A job's input is written in the transaction that adds the job, so that no job runs without it, on
whichever server. What it is not: the reading of files (reference_file.py, reference_tail.py).
"""

import zlib
from collections.abc import Callable

import sqlalchemy as sa

from onbeat.server.jobs.job import Job
from onbeat.server.jobs.table import metadata

inputs = sa.Table(
    "job_inputs",
    metadata,
    sa.Column("job_id", sa.String(64), primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)


def beside(data: bytes) -> Callable[[sa.Connection, Job], None]:
    """What `JobStore.add` takes to keep packed media with the job."""

    def write(connection: sa.Connection, job: Job) -> None:
        values = {"job_id": job.id, "data": zlib.compress(data, 1)}
        connection.execute(sa.insert(inputs).values(values))

    return write


def read(connection: sa.Connection, job_id: str) -> bytes | None:
    """As it was given; None for a job without one."""
    found = connection.execute(sa.select(inputs.c.data).where(inputs.c.job_id == job_id)).scalar()
    return None if found is None else zlib.decompress(found)


def forget(connection: sa.Connection, job_id: str) -> None:
    connection.execute(sa.delete(inputs).where(inputs.c.job_id == job_id))
