"""Figures of an engine that are worth computing once a second only: room, predicted against real.

What it is not: a promise. The answer to a stream is admission's, when it asks.
"""

from onbeat.models.spec import ModelSpec
from onbeat.server.engine.admission import Admission
from onbeat.server.engine.calibration import CostTable
from onbeat.server.engine.device import Costs
from onbeat.server.engine.pool import KVPool, pages_per_stream
from onbeat.server.engine.roster import Roster
from onbeat.server.engine.settings import EngineSettings
from onbeat.server.engine.track import BucketCost, Tracker

SECONDS = 1.0


class Figures:
    """`capacity_streams`: live streams that would be open if as many as possible were asked for
    now, each at the model's own number of steps; `costs`: predicted and real times."""

    def __init__(
        self,
        spec: ModelSpec,
        settings: EngineSettings,
        admission: Admission,
        roster: Roster,
        pool: KVPool,
        costs: Costs,
    ) -> None:
        self._spec, self._settings = spec, settings
        self._admission, self._roster, self._pool, self._lanes = admission, roster, pool, costs
        self._next = -float("inf")
        self.capacity_streams = 0
        self.costs: list[BucketCost] = []
        self._prefills = Tracker([1])
        self._prefill = _prefill_table(costs)

    def prefilled(self, prompts: int, seconds: float) -> None:
        """The keys and values of `prompts` prompts have been written: linear in their number."""
        if self._prefill is not None:
            each = seconds / prompts
            self._prefills.add(
                1, each, self._prefill.p50_ms[1] / 1e3, self._prefill.p99_ms[1] / 1e3
            )

    def at(self, now: float) -> "Figures":
        """Itself, no older than a second."""
        if now >= self._next:
            self._next = now + SECONDS
            self.capacity_streams = len(self._roster.live_demands()) + self._room()
            self.costs = [
                *self._lanes.compute.tracked.report("step"),
                *self._lanes.decode.tracked.report("decode"),
                *self._prefills.report("prefill"),
            ]
        return self

    def _room(self) -> int:
        """How many more live streams would be admitted: the largest count that passes, found by
        halving, as one more never fits where fewer do not."""
        live = len(self._roster.live_demands())
        pages = pages_per_stream(self._spec)
        free = self._roster.free_pages()
        fits, most = 0, max(0, min(self._settings.max_streams - live, free // pages))
        while fits < most:
            middle = (fits + most + 1) // 2
            if self._admits(middle, free):
                fits = middle
            else:
                most = middle - 1
        return fits

    def _admits(self, more: int, free: int) -> bool:
        """Whether the last of so many further streams would be taken."""
        if not self._settings.admission:
            return True
        demand, pages = self._roster.demand(None), pages_per_stream(self._spec)
        live = [*self._roster.live_demands(), *[demand] * (more - 1)]
        left = free - pages * (more - 1)
        return self._admission.refuse(live, demand, pages=pages, free=left) is None


def _prefill_table(costs: Costs) -> CostTable | None:
    """None where only forwards and decodes were measured."""
    if costs.calibration is None:
        return None
    return next((t for t in costs.calibration.tables if t.kind == "prefill"), None)
