"""Small writes of several threads in one transaction, so that they share one wait for the disk.

Whoever gets the lock writes for all that stand behind it. Each has a savepoint of its own: one that
fails leaves nothing, and the others stand. Each returns once the disk has its write. Of use on
SQLite, which has one writer; Postgres does the same by itself.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import sqlalchemy as sa

from onbeat.server.jobs.database import Database

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Entry(Generic[T]):
    work: Callable[[sa.Connection], T]
    done: bool = False
    value: T | None = None
    error: BaseException | None = None


class Together:
    """Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[_Entry[object]] = []
        self._guard, self._turn = threading.Lock(), threading.Lock()

    def run(self, work: Callable[[sa.Connection], T]) -> T:
        """What `work` gives; on the disk when this returns. Raises what it raises, or what the
        transaction does."""
        if self._database.is_shared:
            with self._database.writing() as connection:
                return work(connection)
        entry: _Entry[object] = _Entry(work)
        with self._guard:
            self._waiting.append(entry)
        with self._turn:
            if not entry.done:
                self._write()
        if entry.error is not None:
            raise entry.error
        return cast(T, entry.value)

    def _write(self) -> None:
        """For everybody who waits by now."""
        with self._guard:
            batch, self._waiting = self._waiting, []
        try:
            with self._database.writing() as connection:
                if len(batch) == 1:  # nobody else is to be kept from harm
                    batch[0].value = batch[0].work(connection)
                else:
                    for entry in batch:
                        _try(connection, entry)
        except BaseException as error:
            for entry in batch:
                entry.error = entry.error or error
        for entry in batch:
            entry.done = True


def _try(connection: sa.Connection, entry: _Entry[object]) -> None:
    try:
        with connection.begin_nested():
            entry.value = entry.work(connection)
    except Exception as error:  # it is the caller's, who gets it
        entry.error = error
