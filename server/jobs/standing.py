"""Who waits, and at which place: asked of the rows, or kept in memory if nobody else writes.

In memory a job's place costs no walk through all that wait, however many they are. It holds what
the rows hold: changed after each commit, while the writer still stands alone, and read anew from
the rows after a transaction that did not end well. What it is not: whose job is next (queueing.py).
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa

from onbeat.server.jobs import queueing
from onbeat.server.jobs.database import Database
from onbeat.server.jobs.job import JobRequest
from onbeat.server.jobs.key_queue import KeyQueue
from onbeat.server.jobs.table import jobs


class Row(NamedTuple):
    """What a job's place depends on."""

    number: int
    owner: str
    priority: int
    cost: float


COLUMNS = [jobs.c[name] for name in Row._fields]
WAITING = sa.select(*COLUMNS).where(jobs.c.state == "queued")


def row_of(row: sa.Row[Any]) -> Row:
    """Of a row that has these columns, and others too."""
    return Row(row.number, row.owner, row.priority, row.cost)


def row_for(number: int, request: JobRequest) -> Row:
    return Row(number, request.owner, request.priority, float(request.frames))


class Standing(Protocol):
    """What the store asks. Thread-safe."""

    def waiting(self, connection: sa.Connection, owner: str) -> tuple[int, int]:
        """How many wait, and how many of them are `owner`'s, in a write under way."""
        ...

    def places(self, rows: Sequence[Row]) -> dict[int, int]:
        """By number, of those that are queued; 1 is next, and no two have the same."""
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

    def places(self, rows: Sequence[Row]) -> dict[int, int]:
        with self._database.reading() as connection:
            return queueing.positions(connection, [row.number for row in rows])

    def note(self, row: Row, *, queued: bool) -> None:
        """Nothing is remembered."""


class InMemory:
    """Only this process writes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._loaded: int | None = None
        self._queues = defaultdict[str, KeyQueue](KeyQueue)
        with database.writing() as connection:
            self._load(connection)

    def waiting(self, connection: sa.Connection, owner: str) -> tuple[int, int]:
        self._load(connection)
        known, now = self._waiting(), self._added()
        return sum(known.values()) + len(now), known.get(owner, 0) + now.count(owner)

    def places(self, rows: Sequence[Row]) -> dict[int, int]:
        if self._loaded != self._database.failures:
            with self._database.writing() as connection:
                self._load(connection)
        owners, served = self._waiting(), dict[str, float]()
        if len(owners) > 1:
            with self._database.reading() as connection:
                served = queueing.turns(connection, owners)
        turn = served.get(queueing.TURN, 0.0)
        with self._lock:
            starts = {owner: max(served.get(owner, turn), turn) for owner in self._queues}
            found = ((row.number, self._place(row, starts)) for row in rows)
            return {number: place for number, place in found if place is not None}

    def _place(self, row: Row, starts: Mapping[str, float]) -> int | None:
        """As queueing.positions has it."""
        own = self._queues.get(row.owner)
        rank = own.rank(row.number, row.priority) if own is not None else None
        if own is None or rank is None:
            return None
        if len(self._queues) == 1:
            return 1 + rank
        before, oldest = own.tags[rank]
        start = starts[row.owner] + before
        others = ((o, queue) for o, queue in self._queues.items() if queue is not own)
        return 1 + rank + sum(bisect_left(q.tags, (start - starts[o], oldest)) for o, q in others)

    def note(self, row: Row, *, queued: bool) -> None:
        self._database.after(_Note(self, row, queued))

    def _load(self, connection: sa.Connection) -> None:
        """Reads the rows, unless that is known already."""
        failures = self._database.failures
        if self._loaded == failures:
            return
        found = connection.execute(WAITING).all()
        with self._lock:
            self._queues.clear()
            for row in found:
                self._put(row_of(row), queued=True)
            self._loaded = failures

    def put(self, row: Row, queued: bool) -> None:
        """Idempotent."""
        with self._lock:
            self._put(row, queued)

    def _put(self, row: Row, queued: bool) -> None:
        queue = self._queues[row.owner]
        if queued:
            queue.add(row.number, row.priority, row.cost)
        else:
            queue.remove(row.number, row.priority)
        if not queue:
            del self._queues[row.owner]

    def _added(self) -> list[str]:
        """Whose the jobs are that the write under way adds."""
        notes = (told for told in self._database.pending if isinstance(told, _Note))
        return [note.row.owner for note in notes if note.queued]

    def _waiting(self) -> dict[str, int]:
        with self._lock:
            return {owner: len(queue) for owner, queue in self._queues.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Note:
    """What is to be changed once the write under way is committed."""

    standing: InMemory
    row: Row
    queued: bool

    def __call__(self) -> None:
        self.standing.put(self.row, self.queued)
