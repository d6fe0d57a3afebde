"""Whether one more stream can be promised its frames: pages, compute lane, decode lane.

A utilisation test on measured costs, in plain numbers. What it is not: a queue, or a promise to
jobs, which only get what live streams leave.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from onbeat.server.engine.cost import CostModel

BATCH_SHARE = 0.5
"""A chunk's forwards, at the batch size admission counts on, fit in this share of its window."""
RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a live stream needs: forwards per chunk and the seconds between its chunks."""

    rows: int
    period: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    reason: str
    retry_after: float = RETRY_SECONDS


class Admission:
    """`headroom`: the share of each lane that may be promised. `window_seconds`: from a chunk's
    release to its compute deadline."""

    def __init__(
        self,
        *,
        compute: CostModel,
        decode: CostModel,
        headroom: float,
        max_rows: int,
        max_decode_rows: int,
        window_seconds: float,
    ) -> None:
        self._compute, self._decode = compute, decode
        self._headroom = headroom
        self._max_rows, self._max_decode_rows = max_rows, max_decode_rows
        self._window = window_seconds

    def utilisation(self, live: Sequence[Demand]) -> float:
        """Predicted share of the compute lane, at the largest batch that deadlines allow."""
        if not live:
            return 0.0
        row = self._compute.promised_row_seconds(self._batch(live))
        return sum(d.rows * row / d.period for d in live)

    def decode_utilisation(self, live: Sequence[Demand]) -> float:
        """Predicted share of the decode lane, at single chunks per decode."""
        rows = max(1, min(self._max_decode_rows, len(live) // 4))
        chunk = self._decode.promised_row_seconds(rows)
        return sum(chunk / d.period for d in live)

    def refuse(
        self, live: Sequence[Demand], new: Demand, *, pages: int, free: int
    ) -> Refusal | None:
        """Why `new` cannot join `live`, or None. `pages` is what it needs of the `free` ones."""
        if pages > free:
            return Refusal(reason=f"it needs {pages} pages of key-value memory, {free} are free")
        after = [*live, new]
        lanes = (("compute", self.utilisation(after)), ("decode", self.decode_utilisation(after)))
        for lane, share in lanes:
            if share > self._headroom:
                return Refusal(
                    reason=f"with {len(after)} live streams the {lane} lane would be "
                    f"{share:.0%} busy, at most {self._headroom:.0%} is promised"
                )
        return None

    def capacity(self, demand: Demand, *, pages: int, total_pages: int) -> int:
        """How many streams of this kind would be admitted by an idle engine."""
        streams: list[Demand] = []
        free = total_pages
        while self.refuse(streams, demand, pages=pages, free=free) is None:
            streams.append(demand)
            free -= pages
        return len(streams)

    def _batch(self, live: Sequence[Demand]) -> int:
        """The largest batch at which the longest chunk still fits its window with room."""
        rows = max(d.rows for d in live)
        batch = 1
        for size in range(1, min(self._max_rows, len(live)) + 1):
            if rows * self._compute.predict(size) > BATCH_SHARE * self._window:
                break
            batch = size
        return batch
