"""Numbered steps from any older database of jobs to the tables of today (table.py).

Each step runs once, in one transaction with the note that it ran; on Postgres one server at a time.
A file without notes but with jobs is one of the first version. Steps are only ever appended, and
spell out what they make, so that a later change of table.py does not change an earlier step.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

from onbeat.server.jobs.table import schema_version

LOCK = 0x6F6E62656174
"""Of Postgres' advisory locks: held while steps run."""


class SchemaTooNew(Exception):
    """The database was made by a newer version."""


def migrate(connection: sa.Connection) -> int:
    """Brings the database up to date; the version it has now. Raises SchemaTooNew."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
    version = _version(connection)
    if version > len(MIGRATIONS):
        raise SchemaTooNew(
            f"the database has version {version} of the job tables; this onbeat knows up to "
            f"{len(MIGRATIONS)}"
        )
    for number, step in enumerate(MIGRATIONS[version:], version + 1):
        step(connection)
        _note(connection, number)
    return len(MIGRATIONS)


def _version(connection: sa.Connection) -> int:
    there = sa.inspect(connection)
    if there.has_table(schema_version.name):
        newest = connection.execute(sa.select(sa.func.max(schema_version.c.version))).scalar()
        return int(newest or 0)
    schema_version.create(connection)
    if not there.has_table("jobs"):
        return 0
    _note(connection, 1)
    return 1


def _note(connection: sa.Connection, version: int) -> None:
    values = {"version": version, "applied_at": time.time()}
    connection.execute(sa.insert(schema_version).values(values))


# ---- the steps -----------------------------------------------------------------------------------


def _first(connection: sa.Connection) -> None:
    """As the first version had it."""
    sa.Table(
        "jobs",
        sa.MetaData(),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("request_json", sa.LargeBinary, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("lease_owner", sa.String(128)),
        sa.Column("lease_expires_at", sa.Float),
        sa.Column("not_before", sa.Float, nullable=False),
        sa.Column("progress", sa.Float, nullable=False),
        sa.Column("recognised_json", sa.LargeBinary, nullable=False),
        sa.Column("error_code", sa.String(64)),
        sa.Column("error_message", sa.Text),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float),
        sa.Column("completed_at", sa.Float),
        sa.Column("peak_memory_mb", sa.Float),
        sa.Index("jobs_by_state", "state", "number"),
        sqlite_autoincrement=True,
    ).create(connection)


def _turns_beats_events(connection: sa.Connection) -> None:
    """Whose turn it is, heartbeats instead of instants, checkpoints, results, events."""
    for column in (
        sa.Column("owner", sa.String(128), nullable=False, server_default=""),
        sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
        sa.Column("cost", sa.Float, nullable=False, server_default="0"),
        sa.Column("beat", sa.Integer, nullable=False, server_default="0"),
        sa.Column("strikes", sa.Integer, nullable=False, server_default="0"),
        sa.Column("checkpoint", sa.Integer, nullable=False, server_default="0"),
        sa.Column("events", sa.Integer, nullable=False, server_default="0"),
        sa.Column("run_seconds", sa.Float),
        sa.Column("stages_json", sa.Text),
        sa.Column("result_json", sa.Text),
        sa.Column("expires_at", sa.Float),
        sa.Column("expired", sa.Boolean, nullable=False, server_default=sa.false()),
    ):
        _add_column(connection, "jobs", column)
    _fill_owners(connection)
    turn = "CREATE INDEX jobs_by_turn ON jobs (state, owner, priority, number)"
    connection.execute(sa.text(turn))
    later = sa.MetaData()
    sa.Table(
        "job_events",
        later,
        sa.Column("job", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("data_json", sa.Text, nullable=False),
    )
    sa.Table(
        "job_turns",
        later,
        sa.Column("owner", sa.String(128), primary_key=True),
        sa.Column("served", sa.Float, nullable=False),
    )
    later.create_all(connection)


def _add_column(connection: sa.Connection, table: str, column: sa.Column[Any]) -> None:
    text = CreateColumn(column).compile(dialect=connection.dialect)
    connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {text}"))


def _fill_owners(connection: sa.Connection) -> None:
    """What older rows only have in their requests."""
    jobs = sa.table("jobs", *(sa.column(n) for n in ("number", "request_json", "owner", "cost")))
    for row in connection.execute(sa.select(jobs.c.number, jobs.c.request_json)).all():
        asked = msgspec.json.decode(bytes(row.request_json))
        change = sa.update(jobs).where(jobs.c.number == row.number)
        values = {"owner": asked.get("owner", ""), "cost": float(asked.get("frames", 0))}
        connection.execute(change.values(values))


def _beside(connection: sa.Connection) -> None:
    """Inputs, idempotency keys, webhooks: tables beside the jobs."""
    later = sa.MetaData()
    sa.Table(
        "job_inputs",
        later,
        sa.Column("job_id", sa.String(64), primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    sa.Table(
        "idempotency",
        later,
        sa.Column("owner", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False, index=True),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    sa.Table(
        "webhooks",
        later,
        sa.Column("job_id", sa.String(64), primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("event_id", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_at", sa.Float, nullable=False),
        sa.Column("error", sa.Text),
        sa.Index("webhooks_due", "state", "next_at"),
    )
    later.create_all(connection)


def _turns_alone(connection: sa.Connection) -> None:
    """Whose turn it is can be read from the index alone."""
    connection.execute(sa.text("DROP INDEX jobs_by_turn"))
    columns = "state, owner, priority, number, not_before"
    connection.execute(sa.text(f"CREATE INDEX jobs_by_turn ON jobs ({columns})"))


def _waits(connection: sa.Connection) -> None:
    """Since when a job waits, on a clock that does not step."""
    _add_column(connection, "jobs", sa.Column("waits_boot", sa.String(64)))
    _add_column(connection, "jobs", sa.Column("waits_since", sa.Float))


def _webhooks_due(connection: sa.Connection) -> None:
    """When the next attempt is due, on a clock that does not step."""
    _add_column(connection, "webhooks", sa.Column("due_boot", sa.String(64)))
    _add_column(connection, "webhooks", sa.Column("due_at", sa.Float))


def _turns_in_order(connection: sa.Connection) -> None:
    """A key's next job is the first of its entries in the index: nothing is sorted."""
    connection.execute(sa.text("DROP INDEX jobs_by_turn"))
    columns = "state, owner, priority DESC, number, not_before"
    connection.execute(sa.text(f"CREATE INDEX jobs_by_turn ON jobs ({columns})"))


def _webhooks_of_deleted(connection: sa.Connection) -> None:
    """The end of a job is told though the job was deleted meanwhile."""
    _add_column(connection, "webhooks", sa.Column("job_json", sa.LargeBinary))


MIGRATIONS: list[Callable[[sa.Connection], None]] = [
    _first,
    _turns_beats_events,
    _beside,
    _turns_alone,
    _waits,
    _webhooks_due,
    _turns_in_order,
    _webhooks_of_deleted,
]
