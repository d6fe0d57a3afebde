"""Latency of the last frames: quantiles of the whole, and how the frames there are made up.

A row of the split is the mean of the frames around a quantile of the whole, so that its stages sum
to it: percentiles of single stages would belong to different frames. Pure.
"""

from collections.abc import Sequence
from typing import Any

from onbeat.server.api.frames import ALL_STAGES, VIEWER_STAGES, FrameRecord

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
AROUND = 0.02
"""Share of all frames, on either side of a quantile, that its row is the mean of."""
PLANNED = ("pace",)
"""Waiting that is meant: it is never what makes a server slow."""
SPARED = (*PLANNED, *VIEWER_STAGES)


def split(records: Sequence[FrameRecord]) -> dict[str, dict[str, float] | None]:
    """Milliseconds by stage, and their `total`, for the frames around each quantile; None without
    a frame. Frames of which a viewer told have his stages too, the others have 0 there."""
    ordered = sorted(records, key=_total)
    return {name: _row(ordered, share) for name, share in QUANTILES.items()}


def tail(records: Sequence[FrameRecord]) -> dict[str, float] | None:
    """The same for the frames around p95 of the time that is not meant: a stall that the wait for
    the playout instant makes up for changes no total, but it is what eats the reserve."""
    return _row(sorted(records, key=_unplanned), QUANTILES["p95"])


def _total(record: FrameRecord) -> float:
    return record.total


def _unplanned(record: FrameRecord) -> float:
    return record.total - sum(record.stages.get(name, 0.0) for name in PLANNED)


def _row(ordered: Sequence[FrameRecord], share: float) -> dict[str, float] | None:
    if not ordered:
        return None
    place, reach = round(share * (len(ordered) - 1)), int(AROUND * len(ordered))
    near = ordered[max(0, place - reach) : place + reach + 1]
    scale = 1e3 / len(near)
    row = {
        stage: round(scale * sum(record.stages.get(stage, 0.0) for record in near), 3)
        for stage in ALL_STAGES
    }
    return row | {"total": round(scale * sum(record.total for record in near), 3)}


def slowest(row: dict[str, float] | None, *, late: bool) -> str | None:
    """The stage that costs most. `late`: frames leave late, so only what came before their leaving
    counts: a viewer's buffer grows because of it."""
    if row is None:
        return None
    spared = SPARED if late else PLANNED
    named: dict[str, Any] = {k: v for k, v in row.items() if k in ALL_STAGES and k not in spared}
    return max(named, key=named.__getitem__)
