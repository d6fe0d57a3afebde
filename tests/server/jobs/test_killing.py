"""Servers killed with -9 at random points: nothing lost, nothing twice, every file as it should be.

benchmarks/jobs/kill.py does the same for hundreds of rounds, with more jobs open.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.server.jobs.killing import run
from tests.server.jobs.postgres import new_database


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory if possible: nobody pulls a plug here, and disks are slow."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_rounds_on_sqlite(folder: Path) -> None:
    report = run(folder, rounds=20, seed=1, open_jobs=12)
    assert report.clean, report
    assert report.completed >= 16 and report.resumed > 0, report


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_few_rounds_on_postgres(folder: Path, postgres: str) -> None:
    url = new_database(postgres, "killing")
    report = run(folder, rounds=4, seed=2, open_jobs=6, database_url=url)
    assert report.clean, report
    assert report.completed >= 10, report
