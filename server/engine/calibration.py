"""What was measured at start, as plain data, and its file in the data folder.

One file for each key: everything that a measured time depends on (fingerprint.py). A file that
cannot be read, or was made under another key, is as good as none. What it is not: the measuring
(calibrate.py), or what is learnt later (cost.py).
"""

import hashlib
import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from onbeat.server.engine.cost import GAIN, CostModel

log = logging.getLogger(__name__)
FORMAT = 1
Kind = Literal["step", "decode", "prefill", "encode", "reference"]
"""step: a denoise step or a commit, which share a forward; decode: latents to pictures and sound;
prefill: writing a prompt's keys and values; encode: reading a prompt; reference: one chunk of
reference media to latents."""


NEEDED: frozenset[Kind] = frozenset({"step", "decode"})
MIN_MS, MAX_MS, MAX_FACTOR = 1e-3, 1e6, 1e3


class CostTable(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds of one kind of work by rows. `tokens` of a row, `window`: chunks that it sees.

    `p50_ms` is the low quartile of the measurement: what others take only adds. `margin`: how much
    longer the slowest of a hundred takes, over all sizes.
    """

    kind: Kind
    tokens: int
    window: int
    p50_ms: dict[int, float]
    p99_ms: dict[int, float]
    margin: float
    slowed: float = 1.0
    """By how much these times are longer than those that are kept, because the machine is busy."""

    def model(self) -> CostModel:
        seconds = {r: ms / 1e3 for r, ms in self.p50_ms.items()}
        return CostModel(seconds, margin=self.margin, slowed=self.slowed)


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """All tables of one engine. `measured_at`: seconds since 1970; `took`: seconds of measuring.

    `source`: "measured" now, "cached" and checked now, or "given" by an engine that ran before.
    """

    tables: list[CostTable]
    measured_at: float
    took: float
    source: Literal["measured", "cached", "given"] = "measured"
    key: dict[str, str] = {}
    format: int = FORMAT

    def table(self, kind: Kind) -> CostTable:
        """Raises KeyError for a kind that was not measured."""
        for table in self.tables:
            if table.kind == kind:
                return table
        raise KeyError(kind)

    def slowed(self, kind: Kind, factor: float) -> "Calibration":
        """The same with all times of a kind `factor` times as long."""
        tables = [_slowed(t, factor) if t.kind == kind else t for t in self.tables]
        return msgspec.structs.replace(self, tables=tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationCache:
    """The files of earlier calibrations in `folder`. `recalibrate`: measure whatever lies there."""

    folder: Path
    key: Mapping[str, str]
    recalibrate: bool = False

    @property
    def path(self) -> Path:
        text = "\n".join(f"{name}={value}" for name, value in sorted(self.key.items()))
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.json"

    def load(self) -> Calibration | None:
        """What an earlier engine measured under the same key, None if there is nothing to use."""
        if self.recalibrate or not self.path.is_file():
            return None
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=Calibration)
            _check(found, self.key)
        except (OSError, ValueError) as error:
            log.warning("calibration %s is not used, measuring again: %s", self.path, error)
            return None
        return msgspec.structs.replace(found, source="cached")

    def save(self, calibration: Calibration) -> None:
        """Whole or not at all. A folder that cannot be written is a warning: it costs time only."""
        kept = msgspec.structs.replace(calibration, source="measured", key=dict(self.key))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                file = Path(folder, "kept")
                file.write_bytes(msgspec.json.format(msgspec.json.encode(kept)))
                os.replace(file, self.path)
        except OSError as error:
            log.warning("calibration %s was not kept: %s", self.path, error)


def _slowed(table: CostTable, factor: float) -> CostTable:
    return msgspec.structs.replace(
        table,
        p50_ms={rows: factor * ms for rows, ms in table.p50_ms.items()},
        p99_ms={rows: factor * ms for rows, ms in table.p99_ms.items()},
        slowed=factor * table.slowed,
    )


def _check(found: Calibration, key: Mapping[str, str]) -> None:
    """Raises ValueError for what this program did not write under this key."""
    if found.format != FORMAT or found.key != key:
        raise ValueError("it was made by another program or for another machine")
    missing = NEEDED - {table.kind for table in found.tables}
    if missing:
        raise ValueError(f"it has no table of {', '.join(sorted(missing))}")
    for table in found.tables:
        _check_table(table)


def _check_table(table: CostTable) -> None:
    times = [*table.p50_ms.values(), *table.p99_ms.values()]
    if 1 not in table.p50_ms or table.p50_ms.keys() != table.p99_ms.keys():
        raise ValueError(f"{table.kind}: p50 of {list(table.p50_ms)}, p99 of {list(table.p99_ms)}")
    if min(table.p50_ms) < 1 or not all(MIN_MS <= ms <= MAX_MS for ms in times):
        raise ValueError(f"{table.kind}: rows below 1, or times not of {MIN_MS} to {MAX_MS} ms")
    if not all(0 < factor <= MAX_FACTOR for factor in (table.margin, table.slowed)):
        raise ValueError(f"{table.kind}: factors not above 0 and at most {MAX_FACTOR}")


def knee(by_rows: Mapping[int, float]) -> int:
    """Rows beyond which no larger batch gets 2 % more rows done in the same time."""
    best, rate = 1, 0.0
    for rows, time in sorted(by_rows.items()):
        if rows / time > GAIN * rate:
            best, rate = rows, rows / time
    return best
