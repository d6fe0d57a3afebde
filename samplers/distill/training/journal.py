"""The log of a run: one JSON object a line, each step once, also when a run resumes.

It holds what the run computed and nothing of the clock, so that equal runs have equal logs.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

Row = dict[str, float]


class Journal:
    """Appends to `path`; lines from step `begin` on, left by a run that was cut off after its last
    checkpoint, are dropped first."""

    def __init__(self, path: Path, begin: int) -> None:
        kept = [row for row in read(path) if row["step"] < begin] if path.exists() else []
        partial = path.with_name(path.name + ".partial")
        partial.write_text("".join(_line(row) for row in kept))
        partial.replace(path)
        self._file = path.open("a")

    def add(self, row: Mapping[str, float]) -> None:
        self._file.write(_line(row))

    def flush(self) -> None:
        """To the disk: before a checkpoint that counts on these lines."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> list[Row]:
    """All rows; a last line that was cut off is left out."""
    rows: list[Row] = []
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            rows.append(json.loads(line))
    return rows


def _line(row: Mapping[str, float]) -> str:
    return json.dumps(dict(row), allow_nan=False) + "\n"
