"""Postgres by its address: which are understood, and what a lost connection is called."""

import os
import signal
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from onbeat.server.jobs import postgres as module
from onbeat.server.jobs.database import Database, DatabaseError, is_out_of_reach, open_database
from onbeat.server.jobs.store import JobStore
from onbeat.server.jobs.table import job_turns
from tests.e2e.server_process import reserved
from tests.server.api.conftest import Server, started, until
from tests.server.jobs.postgres import new_database
from tests.server.jobs.test_turns import request


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/x", "mysql"),
        ("nonsense", "not a URL"),
        ("sqlite:///x", "allowed: postgresql"),
        ("postgresql://host/x?sslmode=maybe", "sslmode 'maybe'; allowed: disable"),
        ("postgresql://host/x?pool=3", "parameter 'pool'; allowed: application_name"),
        ("postgresql://h/x?sslmode=verify-full&sslrootcert=/no/file", "sslrootcert '/no/file'"),
    ],
)
def test_urls_that_cannot_be_used(url: str, message: str) -> None:
    with pytest.raises(DatabaseError, match=message):
        open_database(url)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_addresses_of_all_drivers_are_taken(postgres: str, scheme: str) -> None:
    rest = postgres.partition("://")[2]
    open_database(f"{scheme}://{rest}/postgres?sslmode=disable&application_name=me").close()


def test_what_an_address_says() -> None:
    def read(text: str) -> dict[str, object]:
        return module.arguments(sa.make_url(text))

    found = read("postgresql://me:secret@db:6432/jobs?sslmode=require")
    assert (found["user"], found["password"], found["database"]) == ("me", "secret", "jobs")
    assert (found["host"], found["port"], found["ssl_context"]) == ("db", 6432, True)
    near = read("postgresql:///jobs?host=/run/postgresql")
    assert (near["host"], near["port"], near["ssl_context"]) == ("/run/postgresql", 5432, False)
    assert read("postgresql://db/jobs")["ssl_context"] is None
    whole = read("postgresql://db/jobs?sslmode=verify-full")["ssl_context"]
    part = read("postgresql://db/jobs?sslmode=verify-ca")["ssl_context"]
    assert isinstance(whole, ssl.SSLContext) and isinstance(part, ssl.SSLContext)
    assert whole.check_hostname and not part.check_hostname
    assert whole.verify_mode == part.verify_mode == ssl.CERT_REQUIRED


def test_nobody_there_and_nobody_who_speaks() -> None:
    with reserved() as nobody, pytest.raises(OperationalError, match="refused") as caught:
        open_database(f"postgresql://127.0.0.1:{nobody.getsockname()[1]}/x")
    assert is_out_of_reach(caught.value)


def test_a_database_that_is_not_there(postgres: str) -> None:
    with pytest.raises(OperationalError, match='"nowhere" does not exist') as caught:
        open_database(f"{postgres}/nowhere")
    assert is_out_of_reach(caught.value)


@pytest.fixture
def database(postgres: str) -> Iterator[Database]:
    database = open_database(f"{postgres}/postgres")
    yield database
    database.close()


def test_errors_have_the_classes_that_they_mean(database: Database) -> None:
    insert = sa.insert(job_turns).values(owner="twice", served=0.0)
    with pytest.raises(IntegrityError, match="23505"), database.writing() as connection:
        connection.execute(insert)
        connection.execute(insert)
    with pytest.raises(SQLAlchemyError, match="42P01") as plain, database.reading() as connection:
        connection.execute(sa.text("SELECT nothing FROM nowhere")).all()
    assert not isinstance(plain.value, OperationalError)
    with pytest.raises(OperationalError) as caught, database.reading() as connection:
        connection.execute(sa.text("SET LOCAL statement_timeout = 20"))
        connection.execute(sa.text("SELECT pg_sleep(20)"))
    assert not is_out_of_reach(caught.value)
    with database.writing() as connection:
        connection.execute(insert)
        connection.execute(sa.delete(job_turns).where(job_turns.c.owner == "twice"))


def own_process(connection: sa.Connection) -> int:
    return int(connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one())


def works_again(database: Database) -> bool:
    try:
        with database.reading() as connection:
            return bool(connection.execute(sa.text("SELECT 1")).scalar_one())
    except OperationalError as error:
        assert is_out_of_reach(error), error
        return False


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_process_that_is_killed_in_the_middle(
    database: Database, how: signal.Signals
) -> None:
    """After SIGKILL Postgres ends all its connections and recovers, as after a crash."""
    with pytest.raises(OperationalError) as caught, database.writing() as connection:
        connection.execute(sa.insert(job_turns).values(owner="half", served=0.0))
        os.kill(own_process(connection), how)
        for _ in range(100):
            connection.execute(sa.select(job_turns)).all()
            time.sleep(0.05)
    assert is_out_of_reach(caught.value)
    until(lambda: works_again(database))
    with database.reading() as connection:
        assert not connection.execute(sa.select(job_turns).where(job_turns.c.owner == "half")).all()


def test_a_connection_lost_while_idle_is_not_noticed(database: Database) -> None:
    with database.reading() as connection:
        mine = own_process(connection)
    with database.reading() as connection:
        assert own_process(connection) == mine
    os.kill(mine, signal.SIGTERM)
    until(lambda: not Path(f"/proc/{mine}").exists())
    with database.reading() as connection:
        assert own_process(connection) != mine


def test_jobs_go_on_after_a_crash_of_the_database(postgres: str, tmp_path: Path) -> None:
    """Whoever asks meanwhile is told to come again; what was accepted is made."""
    with ExitStack() as stack:
        url = new_database(postgres, "crash")
        _crash(url, started(stack, data_dir=tmp_path, database_url=url))


def _crash(url: str, server: Server) -> None:
    ids = [server.video(seconds=3)["id"] for _ in range(3)]
    other = open_database(url)
    with pytest.raises(OperationalError), other.reading() as connection:
        os.kill(own_process(connection), signal.SIGKILL)
        until(lambda: connection.execute(sa.text("SELECT 1")) is None)
    other.close()

    def answered() -> bool:
        answer = server.http.post("/v1/videos", json={"prompt": "a ball"})
        assert answer.status_code in (200, 503), answer.text
        if answer.status_code == 503:
            assert answer.json()["error"]["code"] == "store_unavailable"
        return answer.status_code == 200

    until(answered)
    until(lambda: all(_done(server, video_id) for video_id in ids))


def _done(server: Server, video_id: str) -> bool:
    answer = server.http.get(f"/v1/videos/{video_id}")
    if answer.status_code == 503:
        return False
    state = answer.json()["status"]
    assert state in ("queued", "in_progress", "completed"), answer.text
    return bool(state == "completed")


def test_many_threads_share_the_connections(postgres: str) -> None:
    store = JobStore(new_database(postgres, "threads"))
    threads = [
        threading.Thread(target=lambda: [store.add(request()) for _ in range(5)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.counts()["queued"] == 40
    store.close()
