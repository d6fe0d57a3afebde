"""The cost tables of an engine at start: handed over, read from the data folder, or measured now.

A table from the folder is checked by running a few sizes. If they all take much less than it says,
it is measured again, so that one from a busy moment does not last. If they all take much longer,
the machine is busy now: this engine plans with so much longer times, and the file stays. Cold it
takes about two seconds, warm a quarter of one. What it is not: the timing itself (measure.py).
"""

import logging
import time
from collections.abc import Callable

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.calibration import Calibration, CalibrationCache, CostTable, Kind
from onbeat.server.engine.cost import CostModel, sizes_to
from onbeat.server.engine.measure import Bench, Samples, cost_table, measure
from onbeat.server.engine.settings import Clock, EngineSettings

log = logging.getLogger(__name__)

SECONDS: dict[Kind, float] = {
    "decode": 0.4,
    "step": 1.4,
    "prefill": 0.05,
    "encode": 0.05,
    "reference": 0.05,
}
ROUNDS = 3
CHECKED: tuple[Kind, ...] = ("step", "decode")
CHECK_ROUNDS = 3
SLOWER, FASTER = 1.4, 0.77
"""A table does not hold if all checked sizes take more, or less, than this times what it says."""
MEASURE_AGAIN_SECONDS = 10.0
ROUNDS_AGAIN = 2
"""Somebody waits for the answer meanwhile."""


class MeasuredCosts:
    """The cost tables of both lanes (`Costs` in device.py), and what was calibrated."""

    def __init__(
        self,
        bench: Bench,
        spec: ModelSpec,
        settings: EngineSettings,
        clock: Clock,
        *,
        known: Calibration | None = None,
        cache: CalibrationCache | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`known`: what an engine before this one measured, believed as it is. `clock` is the
        engine's, `now` the one that work is timed with."""
        self._bench, self._spec, self._settings = bench, spec, settings
        self._clock, self._cache, self._now = clock, cache, now
        self._measured_at = -float("inf") if known else clock.now()
        self.calibration = known or self._cached() or self._measured()
        self.decode = self.calibration.table("decode").model()
        self.compute = self.calibration.table("step").model()

    def doubt(self) -> None:
        """Measures again, at most every 10 s. For an idle engine that would refuse its first
        stream: it was measured in a busy moment, and running nothing it would never learn."""
        if self._clock.now() - self._measured_at > MEASURE_AGAIN_SECONDS:
            self._measured_at = self._clock.now()
            self.calibration = self._measured(quickly=True)
            log.info(
                "the engine was idle and full: measured again in %.1f s", self.calibration.took
            )
            self.decode.restart(self.calibration.table("decode").model())
            self.compute.restart(self.calibration.table("step").model())

    def _measured(self, *, quickly: bool = False) -> Calibration:
        started = self._now()
        media = self._spec.takes_reference
        kinds: list[Kind] = [kind for kind in SECONDS if media or kind != "reference"]
        tables = [self._measure(kind, quickly) for kind in kinds]
        made = Calibration(tables=tables, measured_at=time.time(), took=self._now() - started)
        if self._cache is not None:
            self._cache.save(made)
        return made

    def _measure(self, kind: Kind, quickly: bool) -> CostTable:
        seconds, rounds = (0.0, ROUNDS_AGAIN) if quickly else (SECONDS[kind], ROUNDS)
        with self._bench.ready(kind) as run:
            for rows in self._sizes(kind):
                run(rows)
            samples = self._time(self._sizes(kind), run, seconds, rounds)
        spec, prompt = self._spec, kind in ("prefill", "encode")
        return cost_table(
            kind,
            samples,
            tokens=spec.prefix_tokens if prompt else spec.chunk_tokens,
            window=spec.window_chunks if kind == "step" else 0,
        )

    def _time(
        self, sizes: list[int], run: Callable[[int], None], seconds: float, rounds: int
    ) -> Samples:
        return measure(sizes, run, seconds=seconds, rounds=rounds, now=self._now)

    def _sizes(self, kind: Kind) -> list[int]:
        most = {"step": self._settings.max_rows, "decode": self._settings.max_decode_rows}
        return sizes_to(most.get(kind, 1))

    # ---- a table from the folder ---------------------------------------------------------------

    def _cached(self) -> Calibration | None:
        """What lies in the folder, if it still holds."""
        found = self._cache.load() if self._cache is not None else None
        if found is None:
            return None
        for kind in CHECKED:
            ratios = self._ratios(found.table(kind))
            text = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            if max(ratios) < FASTER:
                log.info("calibration: a %s takes %s of what was kept; measuring", kind, text)
                return None
            if min(ratios) > SLOWER:
                log.warning("calibration: a %s takes %s of what was kept: busy now", kind, text)
                found = found.slowed(kind, min(ratios))
        return found

    def _ratios(self, table: CostTable) -> list[float]:
        """What the smallest, a middle and the largest size take now, the best of some tries, over
        what the table says."""
        known = sorted(table.p50_ms)
        sizes = sorted({known[0], known[(len(known) - 1) // 2], known[-1]})
        with self._bench.ready(table.kind) as run:
            samples = self._time(sizes, run, 0.0, CHECK_ROUNDS)
        return [1e3 * min(samples[rows]) / table.p50_ms[rows] for rows in sizes]


def given(spec: ModelSpec, compute: CostModel, decode: CostModel) -> Calibration:
    """Cost models from elsewhere as if they had been calibrated."""
    models: tuple[tuple[Kind, CostModel], ...] = (("step", compute), ("decode", decode))
    return Calibration(
        tables=[_given(kind, spec, cost) for kind, cost in models],
        measured_at=0.0,
        took=0.0,
        source="given",
    )


def _given(kind: Kind, spec: ModelSpec, cost: CostModel) -> CostTable:
    by_rows = cost.table()
    return CostTable(
        kind=kind,
        tokens=spec.chunk_tokens,
        window=spec.window_chunks if kind == "step" else 0,
        p50_ms={rows: 1e3 * seconds for rows, seconds in by_rows.items()},
        p99_ms={rows: 1e3 * cost.predict(rows) for rows in by_rows},
        margin=cost.margin,
    )
