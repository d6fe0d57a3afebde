"""Where the jobs of a test lie: in a SQLite file, or in a Postgres if there can be one."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.jobs.postgres import NoPostgres, new_database, running

NewPlace = Callable[[], Path | str]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server, without a database."""
    server = running()
    try:
        url = server.__enter__()
    except NoPostgres as error:
        pytest.skip(f"no Postgres: {error}")
    try:
        yield url
    finally:
        server.__exit__(None, None, None)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A new and empty one."""
    if request.param == "sqlite":
        return tmp_path / "jobs.sqlite3"
    return new_database(request.getfixturevalue("postgres"), f"t{next(_numbers)}")
