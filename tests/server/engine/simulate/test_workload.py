"""Arrivals and lengths by their statistics, class shares, and the replay of traces."""

from collections import Counter
from pathlib import Path
from random import Random
from statistics import fmean, pvariance

import pytest

from onbeat.server.engine.simulate.traces import AZURE, Columns, replay
from onbeat.server.engine.simulate.workload import (
    Arrivals,
    Lengths,
    StreamClass,
    arriving,
    mean_active,
    together,
)

LIVE, JOB = StreamClass(name="live", share=3.0), StreamClass(name="job", kind="job")


def gaps(arrivals: Arrivals, seed: int = 1) -> list[float]:
    times = list(arrivals.times(Random(seed), 4000.0))
    return [b - a for a, b in zip(times, times[1:], strict=False)]


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gaps_have_the_asked_rate_and_burstiness(burstiness: float) -> None:
    found = gaps(Arrivals(rate=2.0, burstiness=burstiness))
    assert fmean(found) == pytest.approx(0.5, rel=0.06)
    squared_variation = pvariance(found) / fmean(found) ** 2
    assert squared_variation == pytest.approx(1.0 / burstiness, rel=0.15)


def test_lengths_are_fixed_or_lognormal_around_their_mean() -> None:
    rng = Random(2)
    assert Lengths(mean=20.0).draw(rng) == 20.0
    drawn = [Lengths(mean=20.0, sigma=0.8).draw(rng) for _ in range(20_000)]
    assert fmean(drawn) == pytest.approx(20.0, rel=0.05) and min(drawn) >= 1.0
    assert sorted(drawn)[10_000] == pytest.approx(20.0 * 2.718281828 ** (-0.32), rel=0.05)


def test_active_sessions_are_rate_times_length() -> None:
    sessions = arriving(Arrivals(rate=0.5), Lengths(mean=20.0, sigma=0.5), until=5000.0)
    assert mean_active(sessions) == pytest.approx(10.0, rel=0.1)


def test_classes_come_by_their_shares() -> None:
    drawn = arriving(Arrivals(rate=10.0), Lengths(mean=5.0), until=300.0, classes=(LIVE, JOB))
    counts = Counter(s.kind.name for s in drawn)
    assert counts["live"] / len(drawn) == pytest.approx(0.75, abs=0.03)
    exact = together(20, 5.0, within=1.0, classes=(LIVE, JOB), seed=3)
    assert Counter(s.kind.name for s in exact) == {"live": 15, "job": 5}
    assert [s.start for s in exact] == sorted(s.start for s in exact)


def test_the_same_seed_gives_the_same_sessions() -> None:
    first, second, other = (together(9, 5.0, within=1.0, seed=s) for s in (4, 4, 5))
    assert first == second != other


def test_wrong_values_are_named() -> None:
    with pytest.raises(ValueError, match="allowed: rate > 0"):
        Arrivals(rate=0.0)
    with pytest.raises(ValueError, match="allowed: share >= 0"):
        StreamClass(ahead=0)


def test_a_session_list_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("start,seconds,class\n30,5,job\n10,12.5,live\n90,1,live\n")
    sessions = replay(path, classes=(LIVE, JOB), until=50.0, speed=2.0)
    assert [(s.start, s.seconds, s.kind.name) for s in sessions] == [
        (0.0, 12.5, "live"),
        (10.0, 5.0, "job"),
        (40.0, 1.0, "live"),
    ]


def test_a_request_trace_lends_arrivals_and_lengths(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,440\n"
        "2023-11-16 18:15:50.9951690,396,100\n"
    )
    first, second = replay(path, columns=AZURE)
    assert (first.start, first.seconds) == (0.0, 22.0)
    assert second.start == pytest.approx(4.314579, abs=1e-5) and second.seconds == 5.0


def test_a_wrong_trace_is_named_by_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("start,seconds\n1,2\n3,long\n")
    with pytest.raises(ValueError, match="bad.csv: no column class; it has start, seconds"):
        replay(path)
    with pytest.raises(ValueError, match="bad.csv, line 3: could not convert"):
        replay(path, columns=Columns(kind=None))
    path.write_text("start,seconds,class\n1,2,other\n")
    with pytest.raises(ValueError, match="class 'other'; allowed: live"):
        replay(path)
