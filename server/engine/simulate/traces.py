"""Sessions from a CSV trace by time stamp: who came when, and for how long, as it was recorded.

Two readings: request traces of language models (a time stamp and token counts, such as the public
Azure traces TIMESTAMP,ContextTokens,GeneratedTokens), whose generated tokens become seconds at a
rate; and plain session lists start,seconds,class. No public trace of live video sessions was found,
so both only lend their arrivals and lengths. What it is not: random arrivals (workload.py).
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random

from onbeat.server.engine.simulate.workload import Session, StreamClass, chooser


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of a trace's columns. `start`: seconds, or a date and time; `length`: what `per_second`
    of make a second; `kind`: the session's class, None to draw one by the classes' shares."""

    start: str = "start"
    length: str = "seconds"
    kind: str | None = "class"
    per_second: float = 1.0

    def __post_init__(self) -> None:
        if self.per_second <= 0.0:
            raise ValueError(f"per_second: {self.per_second}; allowed: above 0")


SESSIONS = Columns()
AZURE = Columns(start="TIMESTAMP", length="GeneratedTokens", kind=None, per_second=20.0)
"""A session of 20 tokens a second: lengths of seconds to a minute."""


def replay(
    path: Path,
    *,
    columns: Columns = SESSIONS,
    classes: Sequence[StreamClass] = (StreamClass(),),
    until: float = float("inf"),
    speed: float = 1.0,
    least: float = 1.0,
    seed: int = 0,
) -> list[Session]:
    """The sessions of a file, the earliest at 0, as far as `until` (seconds of the simulation).
    `speed`: how much faster than recorded they arrive; `least`: shortest length; `seed`: of the
    classes, where the trace has none. Raises ValueError naming file, line and column."""
    if speed <= 0.0:
        raise ValueError(f"speed: {speed}; allowed: above 0")
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        _check(path, reader.fieldnames or (), columns)
        rows = [_row(path, i, row, columns) for i, row in enumerate(reader, start=2)]
    by_name = {c.name: c for c in classes}
    drawn = chooser(Random(seed), classes)
    first = min((start for start, _, _ in rows), default=0.0)
    sessions = []
    for i, (start, seconds, name) in enumerate(sorted(rows, key=lambda r: r[0])):
        if name is not None and name not in by_name:
            raise ValueError(f"{path.name}: class {name!r}; allowed: {', '.join(by_name)}")
        kind = next(drawn) if name is None else by_name[name]
        at = (start - first) / speed
        if at < until:
            length = max(least, seconds)
            sessions.append(Session(name=f"s{i}", start=at, seconds=length, kind=kind))
    return sessions


def _check(path: Path, names: Iterable[str], columns: Columns) -> None:
    wanted = [columns.start, columns.length, *([columns.kind] if columns.kind else [])]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(f"{path.name}: no column {', '.join(missing)}; it has {', '.join(names)}")


def _row(
    path: Path, line: int, row: Mapping[str, str], columns: Columns
) -> tuple[float, float, str | None]:
    try:
        start = _instant(row[columns.start])
        seconds = float(row[columns.length]) / columns.per_second
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path.name}, line {line}: {error}") from error
    return start, seconds, row[columns.kind] if columns.kind else None


def _instant(text: str) -> float:
    """Seconds of a number, or of a date and time in ISO form; digits beyond microseconds are cut,
    and a time without a zone is one of UTC."""
    try:
        return float(text)
    except ValueError:
        whole, dot, fraction = text.strip().partition(".")
        digits = fraction[:6].rstrip("Z")
        moment = datetime.fromisoformat(f"{whole}+00:00" if "+" not in whole else whole)
        return moment.timestamp() + (float(f"0.{digits}") if dot and digits else 0.0)
