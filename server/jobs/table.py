"""The `jobs` table and the SQLite database it lives in. No logic of jobs (store.py)."""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

metadata = sa.MetaData()

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String(64), nullable=False, unique=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("request_json", sa.LargeBinary, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, default=0),
    sa.Column("fence", sa.Integer, nullable=False, default=0),
    sa.Column("lease_owner", sa.String(128)),
    sa.Column("lease_expires_at", sa.Float),
    sa.Column("not_before", sa.Float, nullable=False, default=0.0),
    sa.Column("progress", sa.Float, nullable=False, default=0.0),
    sa.Column("recognised_json", sa.LargeBinary, nullable=False, default=b"[]"),
    sa.Column("error_code", sa.String(64)),
    sa.Column("error_message", sa.Text),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("started_at", sa.Float),
    sa.Column("completed_at", sa.Float),
    sa.Column("peak_memory_mb", sa.Float),
    sa.Index("jobs_by_state", "state", "number"),
    sqlite_autoincrement=True,
)

READ = {"onbeat_read": True}
"""Execution option of a transaction that only reads: it begins deferred and blocks no writer."""


def open_database(path: Path) -> sa.Engine:
    """The database at `path`, made if need be: WAL, one writer at a time, waits up to 5 s.

    Raises sqlalchemy.exc.OperationalError if it cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(f"sqlite:///{path}", pool_size=4, max_overflow=8)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    with engine.begin() as connection:
        metadata.create_all(connection)
    return engine


def _prepare(connection: Any, _record: Any) -> None:
    """Transactions are begun by `_begin`; a commit has reached the disk when it returns."""
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "busy_timeout=5000", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sa.Connection) -> None:
    """A transaction that reads and then writes must hold the write lock from the start."""
    deferred = connection.get_execution_options().get("onbeat_read", False)
    connection.exec_driver_sql("BEGIN" if deferred else "BEGIN IMMEDIATE")
