"""Whether one more stream can be promised its frames, and at which phase: pages, lanes, the plan.

First a utilisation test of both lanes on measured costs, then the plan run forward (forward.py),
which also finds the instant at which the new stream disturbs the others least. Plain numbers. What
it is not: a queue (waiting.py), or a promise to jobs, which only get what live streams leave.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.forward import Batches, Demand, Outlook, best_phase
from onbeat.server.engine.lead import promised

ACCURACY = 0.005
"""Learnt costs are not known better than this share of themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why not, in a sentence with the numbers."""

    reason: str


class Admission:
    """`headroom`: the share of each lane that may be promised; `delivery_seconds`: kept free
    between a decoded chunk and its playout."""

    def __init__(
        self,
        *,
        compute: CostModel,
        decode: CostModel,
        headroom: float,
        max_rows: int,
        max_decode_rows: int,
        delivery_seconds: float,
    ) -> None:
        self._compute, self._decode = compute, decode
        self._headroom = headroom
        self._max_rows, self._max_decode_rows = max_rows, max_decode_rows
        self._delivery = delivery_seconds

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
        return sum((chunk + d.encode) / d.period for d in live)

    def admit(
        self, live: Sequence[Demand], new: Demand, *, pages: int, free: int
    ) -> Outlook | Refusal:
        """The phase at which `new` can join `live`, or why it cannot. `pages` is what it needs of
        the `free` ones."""
        refusal = self._no_room([*live, new], pages, free)
        if refusal is not None:
            return refusal
        outlook = self.outlook(live, new)
        if outlook.slack >= 0.0:
            return outlook
        return Refusal(
            reason=f"with {len(live) + 1} live streams a chunk would be "
            f"{-1e3 * outlook.slack:.0f} ms late when forwards take "
            f"{self._inflation(new.rows):.2f} times their usual time"
        )

    def refuse(
        self, live: Sequence[Demand], new: Demand, *, pages: int, free: int
    ) -> Refusal | None:
        """Why `new` cannot join `live`, or None."""
        answer = self.admit(live, new, pages=pages, free=free)
        return answer if isinstance(answer, Refusal) else None

    def outlook(self, live: Sequence[Demand], new: Demand) -> Outlook:
        """The best phase for `new` beside `live` and what the plan run forward leaves, whether it
        fits or not."""
        lead = self._lead(len(live) + 1)
        others = [replace(d, window=d.window - lead) for d in live]
        slow = self._inflation(new.rows)
        seconds = [slow * t for t in self._compute.promised_seconds(self._max_rows)]
        return best_phase(others, replace(new, window=new.window - lead), Batches(seconds))

    def capacity(self, demand: Demand, *, pages: int, total_pages: int) -> int:
        """How many streams of this kind would be admitted by an idle engine."""
        streams: list[Demand] = []
        free = total_pages
        while True:
            answer = self.admit(streams, demand, pages=pages, free=free)
            if isinstance(answer, Refusal):
                return len(streams)
            streams.append(replace(demand, phase=answer.phase))
            free -= pages

    def _no_room(self, after: Sequence[Demand], pages: int, free: int) -> Refusal | None:
        if pages > free:
            return Refusal(reason=f"it needs {pages} pages of key-value memory, {free} are free")
        lanes = (("compute", self.utilisation(after)), ("decode", self.decode_utilisation(after)))
        for lane, share in lanes:
            if share > self._headroom * (1.0 + ACCURACY):
                return Refusal(
                    reason=f"with {len(after)} live streams the {lane} lane would be "
                    f"{share:.0%} busy, at most {self._headroom:.0%} is promised"
                )
        return None

    def _lead(self, streams: int) -> float:
        """Seconds before playout at which a chunk's last step must be done, if as many chunks as
        a batch has rows wait for the decode lane at once."""
        batch, rows = min(streams, self._max_rows), self._max_decode_rows
        return promised(self._decode, batch=batch, rows=rows, delivery=self._delivery)

    def _inflation(self, rows: int) -> float:
        """How much slower than usual forwards are taken to be in the plan: by the headroom, or by
        what the slowest chunk of `rows` forwards in a hundred takes, if that is more (independent
        forwards vary less in sum than one by one)."""
        noise = (self._compute.predict(1) / self._compute.median(1) - 1.0) / sqrt(rows)
        return max(1.0 / self._headroom, 1.0 + noise)

    def _batch(self, live: Sequence[Demand]) -> int:
        """The largest batch at which the longest chunk usually fits its window; whether all do is
        the forward plan's to say."""
        lead = self._lead(len(live))
        rows = max(d.rows for d in live)
        window = min(d.window for d in live) - lead
        batch = 1
        for size in range(1, min(self._max_rows, len(live)) + 1):
            if (rows - 1) * self._compute.median(size) <= window:
                batch = size
        return batch
