"""What grew between two scrapes."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest

from onbeat.server.load.scrape import Scrape


class Source:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.count = Counter("onbeat_chunks", "x", ("outcome",), registry=self.registry)
        self.seconds = Histogram(
            "onbeat_step_seconds", "x", buckets=(0.1, 0.2, 0.4), registry=self.registry
        )

    def scrape(self) -> Scrape:
        return Scrape.of(generate_latest(self.registry).decode())


def test_counters_and_histograms_over_a_while() -> None:
    source = Source()
    source.count.labels("late").inc(3)
    source.seconds.observe(5.0)
    before = source.scrape()
    source.count.labels("late").inc()
    source.count.labels("on_time").inc(7)
    for value in (0.15, 0.15, 0.3, 0.3):
        source.seconds.observe(value)
    grown = source.scrape().since(before)
    assert grown.total("chunks_total") == 8 and grown.total("chunks_total", outcome="late") == 1
    assert grown.mean("step_seconds") == pytest.approx(0.225)
    assert grown.quantile("step_seconds", 0.5) == pytest.approx(0.2)
    assert grown.quantile("step_seconds", 0.75) == pytest.approx(0.3)
    assert {found["outcome"] for found, _ in grown.all("chunks_total")} == {"late", "on_time"}


def test_without_events_nothing_is_known() -> None:
    source = Source()
    grown = source.scrape().since(source.scrape())
    assert grown.mean("step_seconds") is None and grown.quantile("step_seconds", 0.5) is None
    assert grown.quantile("no_such", 0.5) is None
    source.seconds.observe(9.0)
    assert source.scrape().quantile("step_seconds", 0.5) == 0.4, "beyond the last edge"
