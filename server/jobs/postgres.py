"""Postgres through pg8000: addresses to its arguments, its errors to the classes that they mean.

pg8000 has one class for all that the server says and one for all that the connection does, and lets
some errors of sockets through as they are. Here they become what the DB API (PEP 249) has for them:
IntegrityError; OperationalError where the database cannot be reached, was lost, takes too long or
has no room. So the rest knows one set of classes for both databases. Knows no jobs.
"""

import getpass
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa
from pg8000 import dbapi
from sqlalchemy.dialects.postgresql.pg8000 import PGDialect_pg8000

CONNECT_SECONDS = 5.0
SILENT_SECONDS = 60.0
"""A connection is given up after so long without a byte of an answer: longer than any statement may
take, so it is the machine or the network."""
PARAMETERS = ("application_name", "host", "sslmode", "sslrootcert")
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
PORT = 5432
OPERATIONAL = ("08", "25P03", "28", "3D", "40", "53", "55", "57", "58")
"""Beginnings of codes (PostgreSQL, appendix A): connection, idle too long, who it is, which
database, deadlock, resources, not now, ended by somebody, system."""
INTEGRITY = "23"
ENDED = ("08", "25P03", "57P")
"""After these the server has closed the connection, or is about to."""


class Lost(dbapi.OperationalError):  # type: ignore[misc]
    """There is no connection any more, or none came about."""

    out_of_reach = True
    """For database.is_out_of_reach, which must do without pg8000."""


def arguments(url: sa.URL) -> dict[str, Any]:
    """What pg8000 is called with for an address as libpq writes it. Raises ValueError."""
    query = {name: str(value) for name, value in url.query.items()}
    unknown = sorted(set(query) - set(PARAMETERS))
    if unknown:
        raise ValueError(f"parameter {unknown[0]!r}; allowed: {', '.join(PARAMETERS)}")
    found: dict[str, Any] = {
        "user": url.username or getpass.getuser(),
        "password": url.password,
        "database": url.database or None,
        "host": query.get("host") or url.host or "localhost",
        "port": url.port or PORT,
        "application_name": query.get("application_name", "onbeat"),
    }
    if found["host"].startswith("/"):
        found["ssl_context"] = False  # a socket of this machine
    else:
        found["ssl_context"] = _ssl(query)
    return found


def _ssl(query: Mapping[str, str]) -> ssl.SSLContext | bool | None:
    """As pg8000 takes it: None is "if the server can", True "but do not ask who it is"."""
    mode = query.get("sslmode", "prefer")
    if mode not in SSL_MODES:
        raise ValueError(f"sslmode {mode!r}; allowed: {', '.join(SSL_MODES)}")
    if mode == "disable":
        return False
    if not mode.startswith("verify"):
        return True if mode == "require" else None
    try:
        context = ssl.create_default_context(cafile=query.get("sslrootcert"))
    except OSError as error:
        raise ValueError(f"sslrootcert {query['sslrootcert']!r}: {error.strerror}") from error
    context.check_hostname = mode == "verify-full"
    return context


class Dialect(PGDialect_pg8000):
    """SQLAlchemy's dialect, with errors of the classes that they mean."""

    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        return dbapi

    def create_connect_args(self, url: sa.URL) -> tuple[list[Any], dict[str, Any]]:
        return [], arguments(url)

    def connect(self, *_: Any, **given: Any) -> Any:
        """Raises Lost, whatever the reason is."""
        with _meant(always=Lost):
            made = _socket(given["host"], given["port"])
            try:
                return super().connect(sock=made, **given)
            except BaseException:
                made.close()
                raise

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        return isinstance(e, Lost)

    def do_ping(self, dbapi_connection: Any) -> bool:
        with _meant():
            return bool(super().do_ping(dbapi_connection))

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        with _meant():
            super().do_execute(cursor, statement, parameters, context)  # type: ignore[no-untyped-call]

    def do_executemany(
        self, cursor: Any, statement: str, parameters: Any, context: Any = None
    ) -> None:
        with _meant():
            super().do_executemany(cursor, statement, parameters, context)  # type: ignore[no-untyped-call]

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        with _meant():
            super().do_execute_no_params(cursor, statement, context)  # type: ignore[no-untyped-call]

    def do_commit(self, dbapi_connection: Any) -> None:
        with _meant():
            super().do_commit(dbapi_connection)  # type: ignore[no-untyped-call]

    def do_rollback(self, dbapi_connection: Any) -> None:
        with _meant():
            super().do_rollback(dbapi_connection)  # type: ignore[no-untyped-call]

    def do_close(self, dbapi_connection: Any) -> None:
        """One that is lost need not be taken leave of."""
        with suppress(dbapi.InterfaceError, OSError):
            super().do_close(dbapi_connection)  # type: ignore[no-untyped-call]


def _socket(host: str, port: int) -> socket.socket:
    if host.startswith("/"):
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(CONNECT_SECONDS)
        made.connect(f"{host}/.s.PGSQL.{port}")
    else:
        made = socket.create_connection((host, port), CONNECT_SECONDS)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.settimeout(SILENT_SECONDS)
    return made


@contextmanager
def _meant(always: type[Lost] | None = None) -> Iterator[None]:
    """Raises what is meant instead of what is raised."""
    try:
        yield
    except dbapi.Error as error:
        meant = _meaning(error)
        raise (always(str(meant)) if always else meant) from error
    except OSError as error:
        raise Lost(error.strerror or str(error)) from error
    except AttributeError as error:
        if always is None:
            raise
        raise always("the server asks for a password, and the address has none") from error


def _meaning(error: Exception) -> Exception:
    said = error.args[0] if error.args else ""
    if not isinstance(said, dict):
        gone = isinstance(error, dbapi.InterfaceError) and (
            "network error" in said or "connection is closed" in said
        )
        return Lost("the connection was lost") if gone else error
    code = said.get("C", "")
    text = f"{said.get('M', 'no message')} ({code})"
    if code.startswith(ENDED):
        return Lost(text)
    if code.startswith(INTEGRITY):
        return dbapi.IntegrityError(text)  # type: ignore[no-any-return]
    if code.startswith(OPERATIONAL):
        return dbapi.OperationalError(text)  # type: ignore[no-any-return]
    return type(error)(text)
