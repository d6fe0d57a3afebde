"""Databases of every earlier version come up to today's tables, with their jobs."""

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from onbeat.server.jobs.database import DatabaseError, open_database
from onbeat.server.jobs.migrations import MIGRATIONS
from onbeat.server.jobs.store import JobStore
from onbeat.server.jobs.table import metadata

FIRST = """
CREATE TABLE jobs (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id VARCHAR(64) NOT NULL,
    state VARCHAR(16) NOT NULL, request_json BLOB NOT NULL, seed BIGINT NOT NULL,
    attempt INTEGER NOT NULL, fence INTEGER NOT NULL, lease_owner VARCHAR(128),
    lease_expires_at FLOAT, not_before FLOAT NOT NULL, progress FLOAT NOT NULL,
    recognised_json BLOB NOT NULL, error_code VARCHAR(64), error_message TEXT,
    created_at FLOAT NOT NULL, started_at FLOAT, completed_at FLOAT, peak_memory_mb FLOAT,
    UNIQUE (id)
);
CREATE INDEX jobs_by_state ON jobs (state, number);
"""
ASKED = (
    b'{"model":"toybox","prompt":"a red ball","seed":7,"steps":2,"frames":40,"fps":20,'
    b'"width":128,"height":128,"audio":true,"metadata":{},"owner":"k1"}'
)


def first_version(path: Path) -> None:
    """A file as the first version left it: one job waits, one runs, one is done."""
    file = sqlite3.connect(path)
    file.executescript(FIRST)
    for number, state in enumerate(("completed", "in_progress", "queued"), 1):
        running = state == "in_progress"
        values = (f"video_{number}", state, ASKED, 7, 1, 1, "h/1/1/x" if running else None)
        file.execute(
            "INSERT INTO jobs (id, state, request_json, seed, attempt, fence, lease_owner,"
            " lease_expires_at, not_before, progress, recognised_json, created_at, started_at,"
            " completed_at) VALUES (?,?,?,?,?,?,?, 99.0, 0.0, 0.5, '[\"red\"]', 10.0, 11.0, ?)",
            (*values, 12.0 if state == "completed" else None),
        )
    file.commit()
    file.close()


def test_a_file_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite3"
    first_version(path)
    store = JobStore(path)
    done, running, waiting = store.page(after=None, limit=9, newest_first=False)
    assert [j.state for j in (done, running, waiting)] == ["completed", "in_progress", "queued"]
    assert waiting.request.prompt == "a red ball" and waiting.request.owner == "k1"
    assert done.recognised == ["red"] and done.result == {} and not done.expired
    assert len(store.recover(lambda owner: owner == "h/1/1/x")) == 1
    first = store.claim("me")
    assert first is not None and (first.id, first.attempt, first.fence) == (running.id, 2, 2)
    assert [event.kind for event in store.events(first)] == ["requeued", "started"]
    store.close()
    again = JobStore(path)
    assert again.counts()["in_progress"] == 1
    again.close()


def test_steps_make_the_tables_of_today(tmp_path: Path) -> None:
    first_version(tmp_path / "old.sqlite3")
    for name in ("old", "new"):
        database = open_database(tmp_path / f"{name}.sqlite3")
        there = sa.inspect(database.engine)
        assert set(metadata.tables) <= set(there.get_table_names())
        for table in metadata.tables.values():
            found = {c["name"]: c["nullable"] for c in there.get_columns(table.name)}
            assert found == {c.name: c.nullable for c in table.columns}, f"{name}: {table.name}"
            indexes = {i["name"] for i in there.get_indexes(table.name)}
            assert {i.name for i in table.indexes} <= indexes
        database.close()


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite3"
    open_database(path).close()
    file = sqlite3.connect(path)
    file.execute("INSERT INTO schema_version VALUES (?, 0)", (len(MIGRATIONS) + 1,))
    file.commit()
    file.close()
    with pytest.raises(DatabaseError, match=f"version {len(MIGRATIONS) + 1}"):
        open_database(path)


def test_a_step_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(connection: sa.Connection) -> None:
        connection.execute(sa.text("ALTER TABLE jobs ADD COLUMN half INTEGER"))
        raise RuntimeError("power cut")

    path = tmp_path / "jobs.sqlite3"
    first_version(path)
    monkeypatch.setattr("onbeat.server.jobs.migrations.MIGRATIONS", [*MIGRATIONS, broken])
    with pytest.raises(RuntimeError):
        open_database(path)
    monkeypatch.undo()
    store = JobStore(path)
    assert store.counts()["queued"] == 1
    store.close()
