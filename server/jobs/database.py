"""The database behind the job store: a SQLite file, or Postgres by its URL. Knows no jobs.

SQLite: WAL, one writer at a time, a commit has reached the disk when it returns. Postgres: servers
share it; no transaction may sit idle for long, so that a stopped server cannot hold others up.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import registry
from sqlalchemy.exc import ArgumentError, OperationalError

from onbeat.server.jobs.migrations import SchemaTooNew, migrate
from onbeat.server.wording import install

READ = {"onbeat_read": True}
"""Execution option of a transaction that only reads: it begins deferred and blocks no writer."""
BUSY_MS = 5000
"""How long a writer of one SQLite file waits for a writer of another process."""
LOG_PAGES = 8000
"""Of SQLite's log, 4 KiB each, after which a writer tidies up itself."""
IDLE_MS, STATEMENT_MS = 10_000, 30_000
SCHEMES = ("postgresql", "postgres")
"""Of an address; a driver behind them (`postgresql+psycopg`) is not looked at: there is one."""
DRIVER = "postgresql.onbeat"


def is_full(error: Exception) -> bool:
    """Whether it is that the disk of a SQLite file takes no more."""
    if not isinstance(error, OperationalError):
        return False
    code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return (code & 0xFF) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def is_out_of_reach(error: Exception) -> bool:
    """Whether it is that a Postgres cannot be reached, or the connection to it was lost."""
    return bool(getattr(getattr(error, "orig", None), "out_of_reach", False))


class DatabaseError(ValueError):
    """A database that cannot be used; the text names it and says why."""


class Database:
    """Connections and transactions. Thread-safe."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.is_shared = engine.dialect.name == "postgresql"
        """Whether other servers may use it."""
        self.failures = 0
        """Write transactions of this process that could not begin, or of whose commit it is not
        sure; one that was given up and rolled back is none."""
        self._lock = threading.Lock()
        self._after: list[Callable[[], None]] = []

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self.engine.connect().execution_options(**READ) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """One transaction, committed at the end. On SQLite writers of this process stand in line
        here, as its own way of waiting is to try again after longer and longer pauses."""
        if self.is_shared:
            with self.engine.begin() as connection:
                yield connection
        else:
            with self._lock:
                yield from self._alone()

    def _alone(self) -> Iterator[sa.Connection]:
        self._after.clear()
        given_up = False
        try:
            with self.engine.begin() as connection:
                try:
                    yield connection
                except BaseException:
                    given_up = True
                    raise
        except BaseException:
            self.failures += not given_up
            raise
        for told in self._after:
            told()

    @property
    def pending(self) -> Sequence[Callable[[], None]]:
        """The calls that wait for the write under way."""
        return self._after

    def after(self, told: Callable[[], None]) -> None:
        """Called once the write under way is committed, before the next one begins. SQLite only."""
        self._after.append(told)

    def tidy(self) -> None:
        """SQLite: moves what was written from its log into the file, beside those who write. Left
        to itself a writer would do that every thousand pages, while all others wait for it."""
        if self.is_shared:
            return
        connection = self.engine.raw_connection()
        try:
            connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").close()
        finally:
            connection.close()

    def close(self) -> None:
        self.engine.dispose()


def open_database(where: Path | str) -> Database:
    """The database in the file `where`, or at that URL, with tables of today.

    Raises DatabaseError for a URL that cannot be used, a driver that is missing, a database that
    was made by a newer version; sqlalchemy.exc.OperationalError if it cannot be reached or opened.
    """
    engine = _file(where) if isinstance(where, Path) else connect(where)
    database = Database(engine)
    try:
        with database.writing() as connection:
            migrate(connection)
    except SchemaTooNew as error:
        database.close()
        raise DatabaseError(f"database: {error}") from error
    return database


def _file(path: Path) -> sa.Engine:
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(f"sqlite:///{path}", pool_size=4, max_overflow=8)
    event.listen(engine, "connect", _prepare_file)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare_file(connection: Any, _record: Any) -> None:
    """Transactions are begun by `_begin`; a commit has reached the disk when it returns."""
    connection.isolation_level = None
    log = f"wal_autocheckpoint={LOG_PAGES}"
    for pragma in ("journal_mode=WAL", f"busy_timeout={BUSY_MS}", "synchronous=FULL", log):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sa.Connection) -> None:
    """A transaction that reads and then writes must hold the write lock from the start."""
    deferred = connection.get_execution_options().get("onbeat_read", False)
    connection.exec_driver_sql("BEGIN" if deferred else "BEGIN IMMEDIATE")


def connect(text: str) -> sa.Engine:
    """Connections to the Postgres at a URL, made when they are wanted. Raises DatabaseError."""
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError) as error:
        raise DatabaseError("database_url: not a URL; allowed: postgresql://...") from error
    if url.drivername.partition("+")[0] not in SCHEMES:
        raise DatabaseError(f"database_url: {url.drivername!r}; allowed: postgresql://...")
    try:
        from onbeat.server.jobs import postgres
    except ModuleNotFoundError as error:
        message = f"database_url: Postgres needs an extra: {install('postgres')}"
        raise DatabaseError(message) from error
    try:
        postgres.arguments(url)
    except ValueError as error:
        raise DatabaseError(f"database_url: {error}") from error
    registry.register(DRIVER, postgres.__name__, postgres.Dialect.__name__)
    engine = sa.create_engine(
        url.set(drivername=DRIVER.replace(".", "+")),
        pool_size=4,
        max_overflow=8,
        pool_pre_ping=True,
    )
    event.listen(engine, "connect", _prepare_postgres)
    return engine


def _prepare_postgres(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(
        f"SET idle_in_transaction_session_timeout = {IDLE_MS}; "
        f"SET statement_timeout = {STATEMENT_MS}"
    )
    cursor.close()
    connection.commit()
