"""Who waits, and at which place: asked of the rows, or kept in memory if nobody else writes.

In memory a job's place costs no walk through all that wait, however many they are. It holds what
the rows hold: changed after each commit, while the writer still stands alone, and read anew from
the rows after a transaction that did not end well. What it is not: whose job is next (queueing.py).
"""

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import sqlalchemy as sa

from onbeat.server.jobs import queueing
from onbeat.server.jobs.database import Database
from onbeat.server.jobs.table import jobs

WAITING = sa.select(jobs.c.owner, jobs.c.priority, jobs.c.number).where(jobs.c.state == "queued")

Row = tuple[int, str, int]
"""A job's number, owner, priority."""


class Standing(Protocol):
    """What the store asks. Thread-safe."""

    def waiting(self, connection: sa.Connection, owner: str) -> tuple[int, int]:
        """How many wait, and how many of them are `owner`'s, in a write under way."""
        ...

    def places(self, rows: Sequence[Row]) -> list[int]:
        """Of queued jobs; 1 is next."""
        ...

    def note(self, row: Row, *, queued: bool) -> None:
        """Once the write under way is committed, the job waits, or does not any more."""
        ...


def standing(database: Database) -> Standing:
    return InRows(database) if database.is_shared else InMemory(database)


class InRows:
    """Other servers write, too."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def waiting(self, connection: sa.Connection, owner: str) -> tuple[int, int]:
        own = sa.func.count(sa.case((jobs.c.owner == owner, 1)))
        query = sa.select(sa.func.count(), own).where(jobs.c.state == "queued")
        total, mine = connection.execute(query).one()
        return int(total), int(mine)

    def places(self, rows: Sequence[Row]) -> list[int]:
        with self._database.reading() as connection:
            return queueing.positions(connection, rows)

    def note(self, row: Row, *, queued: bool) -> None:
        """Nothing is remembered."""


class InMemory:
    """Only this process writes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._loaded: int | None = None
        self._queues: dict[str, list[tuple[int, int]]] = {}
        """By owner: (-priority, number) of its jobs, next first."""
        with database.writing() as connection:
            self._load(connection)

    def waiting(self, connection: sa.Connection, owner: str) -> tuple[int, int]:
        self._load(connection)
        known, now = self._waiting(), self._added()
        return sum(known.values()) + len(now), known.get(owner, 0) + now.count(owner)

    def places(self, rows: Sequence[Row]) -> list[int]:
        if self._loaded != self._database.failures:
            with self._database.writing() as connection:
                self._load(connection)
        waiting, served = self._waiting(), dict[str, float]()
        if len(waiting) > 1:
            with self._database.reading() as connection:
                served = queueing.turns(connection, waiting)
        return [queueing.place(self._rank(row), row[1], waiting, served) for row in rows]

    def note(self, row: Row, *, queued: bool) -> None:
        self._database.after(_Note(self, row, queued))

    def _load(self, connection: sa.Connection) -> None:
        """Reads the rows, unless that is known already."""
        failures = self._database.failures
        if self._loaded == failures:
            return
        found = connection.execute(WAITING).all()
        with self._lock:
            self._queues = {}
            for owner, priority, number in found:
                self._queues.setdefault(owner, []).append((-priority, number))
            for queue in self._queues.values():
                queue.sort()
            self._loaded = failures

    def put(self, row: Row, queued: bool) -> None:
        """Idempotent."""
        number, owner, priority = row
        entry = (-priority, number)
        with self._lock:
            queue = self._queues.setdefault(owner, [])
            at = bisect_left(queue, entry)
            there = at < len(queue) and queue[at] == entry
            if queued and not there:
                insort(queue, entry)
            elif there and not queued:
                del queue[at]
            if not queue:
                del self._queues[owner]

    def _added(self) -> list[str]:
        """Whose the jobs are that the write under way adds."""
        notes = (told for told in self._database.pending if isinstance(told, _Note))
        return [note.row[1] for note in notes if note.queued]

    def _waiting(self) -> dict[str, int]:
        with self._lock:
            return {owner: len(queue) for owner, queue in self._queues.items()}

    def _rank(self, row: Row) -> int:
        """Among the jobs of its owner."""
        number, owner, priority = row
        with self._lock:
            return max(1, bisect_right(self._queues.get(owner, []), (-priority, number)))


@dataclass(frozen=True, slots=True, eq=False)
class _Note:
    """What is to be changed once the write under way is committed."""

    standing: InMemory
    row: Row
    queued: bool

    def __call__(self) -> None:
        self.standing.put(self.row, self.queued)
