"""A Postgres of one's own for tests and benchmarks: in a new folder, on a free port of loopback.

It needs the server's programs on the machine (`initdb` on the path, or a Debian package); which of
them is missing is said. Nothing is forced to disk: tests end servers of jobs, never this one.
"""

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa

from onbeat.server.jobs.database import connect
from tests.e2e.server_process import reserved

START_SECONDS = 100.0


class NoPostgres(Exception):
    """Why there can be no Postgres here."""


def programs() -> Path:
    """The folder of `initdb` and `postgres`. Raises NoPostgres."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not packaged:
        raise NoPostgres("no initdb on the path or in /usr/lib/postgresql")
    return packaged[-1].parent


def _user() -> str | None:
    """Postgres does not run as root: somebody else who may. Raises NoPostgres."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise NoPostgres("Postgres does not run as root, and there is no user postgres or nobody")


@contextmanager
def running() -> Iterator[str]:
    """A server whose URL, without a database, is given. Raises NoPostgres.

    Its folder is no test's: those are closed to the user whom Postgres runs as.
    """
    with TemporaryDirectory(prefix="postgres-") as name:
        with _running(Path(name)) as url:
            yield url


@contextmanager
def _running(folder: Path) -> Iterator[str]:
    there, user = programs(), _user()
    if shutil.which("psql") is None and not there.joinpath("postgres").exists():
        raise NoPostgres(f"no postgres in {there}")
    try:
        import pg8000  # noqa: F401
    except ModuleNotFoundError as error:
        raise NoPostgres("pg8000 is not installed: pip install 'onbeat[postgres]'") from error
    data = folder / "postgres"
    data.mkdir()
    if user is not None:
        shutil.chown(data, user)
        folder.chmod(0o755)
    init: list[str | Path] = [
        there / "initdb",
        "-D",
        data,
        "-U",
        "onbeat",
        "-A",
        "trust",
        "--no-sync",
    ]
    subprocess.run(init, user=user, cwd="/", check=True, stdout=subprocess.DEVNULL)
    holder = reserved()
    port = holder.getsockname()[1]
    options = ["-h", "127.0.0.1", "-p", str(port), "-k", "", "-F"]
    with (folder / "postgres.log").open("wb") as log:
        server = subprocess.Popen(
            [there / "postgres", "-D", data, *options],
            user=user,
            cwd="/",
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    url = f"postgresql://onbeat@127.0.0.1:{port}"
    try:
        _wait(url, server)
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)  # nobody needs what is in it
        server.wait(100)
        holder.close()


def _wait(url: str, server: "subprocess.Popen[bytes]") -> None:
    engine = connect(f"{url}/postgres")
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with engine.connect():
                break
        except sa.exc.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    engine.dispose()


def new_database(url: str, name: str) -> str:
    """The URL of a new, empty database."""
    engine = connect(f"{url}/postgres").execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{url}/{name}"
