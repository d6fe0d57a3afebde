"""A longer job does not take more memory: the short form of benchmarks/jobs/long.py."""

import sys
from pathlib import Path

import pytest

from benchmarks.jobs.long import measure

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_job_is_made_in_bounded_memory(tmp_path: Path) -> None:
    """Four segments; an hour's limit is 300 MiB."""
    found = measure(tmp_path, 14, "mp4", 128)
    assert (found["frames"], found["file_seconds"]) == (280, pytest.approx(14.0, abs=0.1))
    assert found["peak_over_idle_mib"] < 300
