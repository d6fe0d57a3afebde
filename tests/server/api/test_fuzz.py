"""A short run of generated requests; benchmarks/jobs/fuzz.py makes 10,000."""

from pathlib import Path

import pytest

from tests.server.api.fake_engine import FakeEngine
from tests.server.served import served

fuzzing = pytest.importorskip("tests.server.api.fuzzing", reason="schemathesis is not installed")


def test_generated_requests(tmp_path: Path) -> None:
    with served(FakeEngine(), data_dir=tmp_path) as url:
        report = fuzzing.fuzz(url, cases=80, seed=1, only="/v1/videos")
    assert not report.failures, "\n\n".join(report.failures[:5])
    assert report.cases >= 60 and report.statuses[200] and report.statuses[422]
