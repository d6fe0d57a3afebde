"""Which cost table an engine starts with: measured, kept and checked, or handed over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

import pytest

from onbeat.server.engine.calibrate import MeasuredCosts, given
from onbeat.server.engine.calibration import Calibration, CalibrationCache, Kind
from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.measure import Bench
from onbeat.server.engine.settings import EngineSettings
from tests.server.engine.fake import SPEC, FakeClock

SETTINGS = EngineSettings(max_rows=8, max_decode_rows=2)


@dataclass
class FakeBench:
    """Work that takes `first` and `each` seconds, times `slow`, on a clock of its own."""

    first: float = 0.004
    each: float = 0.002
    slow: float = 1.0
    clock: FakeClock = field(default_factory=FakeClock)
    runs: list[tuple[Kind, int]] = field(default_factory=list)

    @contextmanager
    def ready(self, kind: Kind) -> Iterator[Callable[[int], None]]:
        def run(rows: int) -> None:
            self.runs.append((kind, rows))
            self.clock.advance(self.slow * (self.first + self.each * rows))

        yield run


def start(bench: FakeBench, folder: Path | None, known: Calibration | None = None) -> MeasuredCosts:
    bench.runs.clear()
    cache = CalibrationCache(folder=folder, key={"device": "fake"}) if folder else None
    return MeasuredCosts(
        cast(Bench, bench),
        SPEC,
        SETTINGS,
        bench.clock,
        known=known,
        cache=cache,
        now=bench.clock.now,
    )


def test_all_kinds_are_measured_and_the_tables_are_theirs() -> None:
    bench = FakeBench()
    costs = start(bench, None)
    assert {kind for kind, _ in bench.runs} == set(get_args(Kind))
    assert costs.calibration.source == "measured"
    assert list(costs.compute.table()) == [1, 2, 3, 4, 6, 8]
    assert abs(costs.compute.median(8) - 0.020) < 1e-9
    assert list(costs.decode.table()) == [1, 2]
    step = costs.calibration.table("step")
    assert (step.tokens, step.window) == (SPEC.chunk_tokens, SPEC.window_chunks)


def test_the_second_start_only_checks(tmp_path: Path) -> None:
    bench = FakeBench()
    cold = start(bench, tmp_path)
    measured = len(bench.runs)
    warm = start(bench, tmp_path)
    assert warm.calibration.source == "cached" and len(bench.runs) < measured / 4
    assert warm.compute.table() == cold.compute.table()
    assert warm.calibration.measured_at == cold.calibration.measured_at


def test_a_table_from_a_busy_moment_does_not_last(tmp_path: Path) -> None:
    bench = FakeBench(slow=3.0)
    start(bench, tmp_path)
    bench.slow = 1.0
    assert start(bench, tmp_path).calibration.source == "measured"
    warm = start(bench, tmp_path)
    assert warm.calibration.source == "cached"
    assert abs(warm.compute.median(1) - 0.006) < 1e-9


def test_a_machine_that_is_busy_now_is_planned_with_and_forgotten(tmp_path: Path) -> None:
    bench = FakeBench()
    start(bench, tmp_path)
    bench.slow = 2.0
    costs = start(bench, tmp_path)
    assert costs.calibration.source == "cached"
    assert costs.calibration.table("step").slowed == pytest.approx(2.0)
    assert costs.compute.median(8) == pytest.approx(0.040)
    assert costs.decode.median(1) == pytest.approx(0.012)
    bench.slow = 1.0
    assert start(bench, tmp_path).compute.median(8) == pytest.approx(0.020)


def test_one_size_that_hiccups_is_no_reason_to_measure(tmp_path: Path) -> None:
    bench = FakeBench()
    start(bench, tmp_path)
    bench.first = 0.0066
    costs = start(bench, tmp_path)
    assert costs.calibration.source == "cached", "single rows are slower, full batches are not"


def test_what_an_engine_before_measured_is_believed(tmp_path: Path) -> None:
    bench = FakeBench()
    known = given(SPEC, compute=CostModel({1: 0.01}, margin=1.5), decode=CostModel({1: 0.002}))
    costs = start(bench, tmp_path, known)
    assert not bench.runs and costs.compute.table() == {1: 0.01}
    assert costs.compute.margin == 1.5 and not list(tmp_path.iterdir())


def test_doubt_measures_again_keeps_the_result_and_does_not_repeat_itself(tmp_path: Path) -> None:
    bench = FakeBench(slow=3.0)
    costs = start(bench, tmp_path)
    compute, bench.slow = costs.compute, 1.0
    bench.clock.advance(60.0)
    costs.doubt()
    assert costs.compute is compute and abs(compute.median(1) - 0.006) < 1e-9
    bench.runs.clear()
    costs.doubt()
    assert not bench.runs, "not twice in a short time"
    assert start(bench, tmp_path).calibration.source == "cached"
