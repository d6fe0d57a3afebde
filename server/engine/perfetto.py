"""Draws records as a trace file in Chrome's JSON format, which ui.perfetto.dev opens.

Process "lanes": one thread for each lane of the engine and its counters. Process "streams": one
thread for each stream with its rows, deadlines and misses. Process "front": one thread for each
session. Format: Google, "Trace Event Format" (complete, instant, counter, flow and metadata
events); microseconds on the monotonic clock. What it is not: the recording (trace.py).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from onbeat.server.engine.records import (
    AnyRecord,
    Chunk,
    DecodedChunk,
    Forward,
    Mark,
    Planned,
    Row,
    Span,
)

Json = dict[str, Any]
LANES = {"host": 1, "compute": 2, "decode": 3, "copy-in": 4, "copy-out": 5}
ENGINE, STREAMS, FRONT = 1, 2, 3
PROCESSES = {ENGINE: "lanes", STREAMS: "streams", FRONT: "front"}
MOST_EVENTS = 60_000
"""About 10 MB of text. Older records are left out, and the file says so."""


def chrome_trace(records: Sequence[AnyRecord]) -> bytes:
    """The file. Records in the order in which they were made."""
    kept = _newest(records)
    drawing = Drawing()
    for record in kept:
        drawing.add(record)
    document = {
        "traceEvents": [*drawing.names(), *drawing.events],
        "displayTimeUnit": "ms",
        "otherData": {"records": len(records), "left_out": len(records) - len(kept)},
    }
    return msgspec.json.encode(document)


def _newest(records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
    """As many as fit."""
    left = MOST_EVENTS
    for at in range(len(records) - 1, -1, -1):
        record = records[at]
        left -= 4 + (len(record.rows) if isinstance(record, Forward) else 0)
        if left < 0:
            return records[at + 1 :]
    return records


def us(seconds: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(1e6 * seconds, 3)


class Drawing:
    """Events so far, and the tracks they are on."""

    def __init__(self) -> None:
        self.events: list[Json] = []
        self._tracks: dict[tuple[int, str], int] = {(ENGINE, n): tid for n, tid in LANES.items()}
        self._stepped: dict[tuple[str, int], Json] = {}
        """The last step of each chunk that waits for its decoding."""
        self._batch: tuple[float, float, float] | None = None
        """Instants of the decode batch drawn last."""
        self._flows = 0

    def add(self, record: AnyRecord) -> None:
        match record:
            case Planned():
                self._planned(record)
            case Forward():
                self._forward(record)
            case DecodedChunk():
                self._decoded(record)
            case Chunk():
                self._chunk(record)
            case Span(lane=lane, name=name, start=start, end=end, detail=detail):
                self._slice(self._lane(lane), name, start, end, detail)
            case Mark(lane=lane, name=name, end=at, detail=detail):
                self._instant(self._lane(lane), name, at, detail)

    def names(self) -> Iterable[Json]:
        """Metadata: what processes and threads are called, and their order."""
        for pid in sorted({pid for pid, _ in self._tracks}):
            yield _meta("process_name", pid, 0, {"name": PROCESSES[pid]})
            yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
        for (pid, name), tid in self._tracks.items():
            yield _meta("thread_name", pid, tid, {"name": name})
            yield _meta("thread_sort_index", pid, tid, {"sort_index": tid})

    # ---- records -------------------------------------------------------------------------------

    def _planned(self, record: Planned) -> None:
        args = {"rows": record.rows, "ended early": record.finished, "dropped": record.dropped}
        self._slice((ENGINE, LANES["host"]), "plan", record.start, record.end, args)
        self._counter("pages used", record.end, record.pages)
        if record.slack is not None:
            self._counter("least slack, ms", record.end, round(1e3 * record.slack, 3))

    def _forward(self, record: Forward) -> None:
        rows = sum(row.width for row in record.rows)
        prefill = all(row.work == "prefill" for row in record.rows)
        name = f"{'prefill' if prefill else 'forward'} of {rows}"
        kinds = {w: sum(row.work == w for row in record.rows) for w in ("step", "commit")}
        self._slice((ENGINE, LANES["compute"]), name, record.start, record.end, kinds)
        self._counter("batch rows", record.start, rows)
        self._counter("batch rows", record.end, 0)
        for row in record.rows:
            self._row(row, rows, record)

    def _row(self, row: Row, rows: int, record: Forward) -> None:
        what = row.work
        if row.work == "step":
            what = f"step {row.step}/{row.steps}"
        elif row.width > 1:
            what = f"{row.work} of {row.width}"
        args = {"chunk": row.chunk, "work": row.work, "batch rows": rows}
        if row.work == "step":
            args |= {"step": row.step, "steps": row.steps}
        track = self._track(STREAMS, row.stream)
        drawn = self._slice(track, f"#{row.chunk} {what}", record.start, record.end, args)
        if row.work == "step":
            self._stepped[row.stream, row.chunk] = drawn

    def _decoded(self, record: DecodedChunk) -> None:
        lane = (ENGINE, LANES["decode"])
        batch = (record.start, record.middle, record.end)
        if batch != self._batch and record.end > record.start:
            self._batch = batch
            self._slice(lane, "decode", record.start, record.middle, {})
            self._slice(lane, "convert and copy out", record.middle, record.end, {})
        source = self._stepped.pop((record.stream, record.chunk), None)
        if source is not None and record.end > record.start:
            self._arrow(source, lane, record)

    def _arrow(self, source: Json, lane: tuple[int, int], record: DecodedChunk) -> None:
        """From the last step of a chunk to its decoding."""
        self._flows += 1
        flow = {"cat": "chunk", "name": f"#{record.chunk}", "id": self._flows}
        leaves = round(source["ts"] + max(0.0, source["dur"] - 1.0), 3)
        self.events.append(
            {**flow, "ph": "s", "pid": source["pid"], "tid": source["tid"], "ts": leaves}
        )
        self.events.append(
            {**flow, "ph": "f", "bp": "e", "pid": lane[0], "tid": lane[1], "ts": us(record.start)}
        )

    def _chunk(self, record: Chunk) -> None:
        track = self._track(STREAMS, record.stream)
        args = {"chunk": record.chunk}
        for name, at in (
            ("release", record.released),
            ("deadline", record.deadline),
            ("playout", record.playout),
        ):
            self._instant(track, f"#{record.chunk} {name}", at, args)
        if record.cause is not None:
            what = "dropped" if record.dropped else "late"
            late = round(1e3 * (record.end - record.playout), 3)
            cause = {**args, "cause": record.cause, "late_ms": late}
            self._instant(track, f"#{record.chunk} {what}: {record.cause}", record.end, cause)

    # ---- events --------------------------------------------------------------------------------

    def _lane(self, name: str) -> tuple[int, int]:
        """A lane of the engine, or a session of the front."""
        return (ENGINE, LANES[name]) if name in LANES else self._track(FRONT, name)

    def _track(self, pid: int, name: str) -> tuple[int, int]:
        return pid, self._tracks.setdefault((pid, name), len(self._tracks) + 1)

    def _slice(
        self, track: tuple[int, int], name: str, start: float, end: float, args: Json
    ) -> Json:
        at = us(start)
        duration = round(us(end) - at, 3)
        event = {"ph": "X", "name": name, "ts": at, "dur": duration, "args": args}
        self.events.append(event | {"pid": track[0], "tid": track[1]})
        return self.events[-1]

    def _instant(self, track: tuple[int, int], name: str, at: float, args: Json) -> None:
        event = {"ph": "i", "s": "t", "name": name, "ts": us(at), "args": args}
        self.events.append(event | {"pid": track[0], "tid": track[1]})

    def _counter(self, name: str, at: float, value: float) -> None:
        args = {"value": value}
        self.events.append({"ph": "C", "name": name, "ts": us(at), "pid": ENGINE, "args": args})


def _meta(name: str, pid: int, tid: int, args: Json) -> Json:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}
