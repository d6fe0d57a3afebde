"""The tables of the job store, as they are after the last migration. No logic (store.py), no steps
from older files (migrations.py).
"""

import sqlalchemy as sa

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
    sa.Column("lease_expires_at", sa.Float),  # unused; files of the first version have it
    sa.Column("not_before", sa.Float, nullable=False, default=0.0),
    sa.Column("progress", sa.Float, nullable=False, default=0.0),
    sa.Column("recognised_json", sa.LargeBinary, nullable=False, default=b"[]"),
    sa.Column("error_code", sa.String(64)),
    sa.Column("error_message", sa.Text),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("started_at", sa.Float),
    sa.Column("completed_at", sa.Float),
    sa.Column("peak_memory_mb", sa.Float),
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
    sa.Column("waits_boot", sa.String(64)),  # since when it waits (steady.py)
    sa.Column("waits_since", sa.Float),
    sa.Index("jobs_by_state", "state", "number"),
    sa.Index("jobs_by_turn", "state", "owner", sa.text("priority DESC"), "number", "not_before"),
    sqlite_autoincrement=True,
)

job_events = sa.Table(
    "job_events",
    metadata,
    sa.Column("job", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("data_json", sa.Text, nullable=False),
)

job_turns = sa.Table(
    "job_turns",
    metadata,
    sa.Column("owner", sa.String(128), primary_key=True),
    sa.Column("served", sa.Float, nullable=False),
)

schema_version = sa.Table(
    "schema_version",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("applied_at", sa.Float, nullable=False),
)
