"""Reads a trace file back and checks what every viewer of it relies on."""

import json
from collections import defaultdict
from typing import Any

Event = dict[str, Any]
SLACK_US = 0.002
"""Of rounding."""


def parsed(data: bytes) -> list[Event]:
    """The events of a file that is well formed: complete slices that do not overlap on a track,
    arrows that start and end inside slices, tracks that have names."""
    events: list[Event] = json.loads(data)["traceEvents"]
    assert {e["ph"] for e in events} <= {"X", "i", "C", "M", "s", "f"}
    names = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["name"] == "process_name"}
    tracks: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        assert event["pid"] in processes, event
        if event["ph"] in ("X", "i", "s", "f"):
            assert (event["pid"], event["tid"]) in names, event
        if event["ph"] == "X":
            assert event["dur"] >= 0.0, event
            tracks[event["pid"], event["tid"]].append(event)
    for slices in tracks.values():
        ordered = sorted(slices, key=lambda e: e["ts"])
        for before, after in zip(ordered, ordered[1:], strict=False):
            assert after["ts"] >= before["ts"] + before["dur"] - SLACK_US, (before, after)
    arrows(events, tracks)
    return events


def arrows(events: list[Event], tracks: dict[tuple[int, int], list[Event]]) -> None:
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    for flow, start in starts.items():
        assert start["ts"] <= ends[flow]["ts"] + SLACK_US, (start, ends[flow])
        for event in (start, ends[flow]):
            around = tracks[event["pid"], event["tid"]]
            inside = [
                s
                for s in around
                if s["ts"] - SLACK_US <= event["ts"] <= s["ts"] + s["dur"] + SLACK_US
            ]
            assert inside, event


def track_names(events: list[Event]) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}


def on_track(events: list[Event], name: str) -> list[Event]:
    """Slices and instants of one lane, stream or session."""
    wanted = {key for key, called in track_names(events).items() if called == name}
    return [e for e in events if (e["pid"], e.get("tid")) in wanted and e["ph"] in ("X", "i")]


def misses(events: list[Event]) -> list[Event]:
    return [e for e in events if e["ph"] == "i" and "cause" in e["args"]]
