"""Writes that share a transaction: each its own success or failure, fewer commits than writes."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from onbeat.server.jobs.database import Database, open_database
from onbeat.server.jobs.table import job_turns
from onbeat.server.jobs.together import Together


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = open_database(tmp_path / "jobs.sqlite3")
    yield database
    database.close()


def insert(connection: sa.Connection, name: str) -> str:
    connection.execute(sa.insert(job_turns).values(owner=name, served=0.0))
    if name.startswith("bad"):
        raise ValueError(name)
    return name


def owners(database: Database) -> set[str]:
    with database.reading() as connection:
        return {row.owner for row in connection.execute(sa.select(job_turns))}


def at_once(together: Together, names: list[str]) -> tuple[list[str], list[str]]:
    """What came back, and what was raised, of writes that all wait at one time."""
    back, raised = list[str](), list[str]()

    def one(name: str) -> None:
        try:
            back.append(together.run(lambda connection: insert(connection, name)))
        except (ValueError, OperationalError) as error:
            raised.append(f"{name}: {type(error).__name__}")

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    with together._turn:
        for thread in threads:
            thread.start()
        while len(together._waiting) < len(names):
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join()
    return sorted(back), sorted(raised)


def test_many_writes_are_one_commit(database: Database) -> None:
    commits = []
    event.listen(database.engine, "commit", lambda _: commits.append(1))
    names = [f"n{i:02}" for i in range(20)]
    assert at_once(Together(database), names) == (names, [])
    assert len(commits) == 1 and owners(database) == set(names)


def test_one_that_fails_leaves_nothing_and_harms_nobody(database: Database) -> None:
    back, raised = at_once(Together(database), ["a", "bad", "c"])
    assert (back, raised) == (["a", "c"], ["bad: ValueError"])
    assert owners(database) == {"a", "c"}


def test_a_disk_that_is_full_is_everybodys(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise OperationalError("COMMIT", {}, Exception("database or disk is full"))

    event.listen(database.engine, "commit", full)
    back, raised = at_once(Together(database), ["a", "bad", "c"])
    assert not back and len(raised) == 3
    event.remove(database.engine, "commit", full)
    assert owners(database) == set()
