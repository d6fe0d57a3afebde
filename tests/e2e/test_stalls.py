"""A short form of the benchmark of stalls: parts of the real engine and the network are held up,
and named; how soon is the benchmark's to say."""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from benchmarks.live.stalls import SEEN, Bench, held_up, measure

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def bench(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    patch = pytest.MonkeyPatch()
    patch.setattr("benchmarks.live.stalls.SETTLE", 0.5)
    patch.setattr("benchmarks.live.stalls.PATIENCE", 90.0)
    with closing(Bench("toybox", tmp_path_factory.mktemp("stalls"), browser)) as made:
        yield made
    patch.undo()


def test_a_stall_of_the_real_engine_is_named(bench: Bench) -> None:
    assert measure(bench, ["decode"])["decode"] is not None


@pytest.mark.parametrize(("stage", "share"), [("commit", "p95"), ("network", "p50")])
def test_what_a_stall_takes_is_that_stages(bench: Bench, stage: str, share: str) -> None:
    """Whatever else is slow on a busy machine: it need not be the slowest."""

    def taken() -> float:
        overview = bench.dashboard.request.get(f"{bench.server.url}/v1/overview").json()
        return float(overview["stages_ms"][stage][share] or 0.0)

    with held_up(bench.client, bench.stalls), bench._held(stage):
        bench._until(lambda: taken() >= 500 * SEEN[stage], stage)
