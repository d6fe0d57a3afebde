"""A short form of the benchmark of stalls: parts of the real engine and the network are held up,
and named."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.live.stalls import Bench, measure

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


STAGES = ["decode", "commit", "network"]


def test_stalls_of_the_real_engine_are_named(
    browser: "Browser", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How soon is the benchmark's to say; here that it is, on a machine that may be busy."""
    monkeypatch.setattr("benchmarks.live.stalls.SETTLE", 0.5)
    monkeypatch.setattr("benchmarks.live.stalls.PATIENCE", 90.0)
    with closing(Bench("toybox", tmp_path, browser)) as bench:
        took = measure(bench, STAGES)
    assert None not in took.values(), took
