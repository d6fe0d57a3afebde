"""Tables and JSON of compared policies (benchmarks/engine/policies.py --simulate, --exact)."""

from collections.abc import Sequence
from typing import Any

from onbeat.server.engine.simulate.cases import Case
from onbeat.server.engine.simulate.compare import Point, behind, mean
from onbeat.server.engine.simulate.tiny import Tiny

AT_CAPACITY = {"A": 0.92, "B": 0.95}
"""Goodput of the bound that edf-s with admission should reach where the load is the capacity."""


def line(point: Point) -> str:
    """One point, as it is measured."""
    return (
        f"| {point.case} | {point.load:g} | {point.variant.label} | {point.offered} | "
        f"{_span(point.admitted)} | {_span(point.clean)} | {100 * mean(point.on_time):.1f} | "
        f"{mean(point.goodput):.3f} | {mean(point.steps):.2f} | {mean(point.rows):.1f} |"
    )


COLUMNS = ("case", "load", "policy", "offered", "admitted", "clean", "on time %", "goodput / bound")
HEAD = f"| {' | '.join(COLUMNS)} | steps | rows |\n{'|---' * (len(COLUMNS) + 2)}|"


def grid(points: Sequence[Point], case: str) -> str:
    """Policies by loads: clean streams, chunks on time in % and goodput / bound of one case."""
    mine = [p for p in points if p.case == case]
    loads = sorted({p.load for p in mine})
    head = f"| {case} |" + "".join(f" {load:g}x |" for load in loads)
    rows = [head, "|---" * (1 + len(loads)) + "|"]
    for label in dict.fromkeys(p.variant.label for p in mine):
        cells = {p.load: p for p in mine if p.variant.label == label}
        rows.append(f"| {label} |" + "".join(f" {_cell(cells[load])} |" for load in loads))
    whole = {p.load: p for p in mine}
    limits = (f" {_span(whole[load].bound_streams)} of {whole[load].offered} |" for load in loads)
    return "\n".join([*rows, f"| streams that the bound allows |{''.join(limits)}"])


def _cell(p: Point) -> str:
    streams = f"{_span(p.clean)} of {_span(p.admitted)}"
    return f"{streams}, {100 * mean(p.on_time):.1f}, {mean(p.goodput):.3f}"


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"


def summary(points: Sequence[Point], cases: Sequence[Case], seconds: float) -> dict[str, Any]:
    """Plain JSON values: every point and what is asked of edf-s."""
    return {
        "benchmark": "policies-simulated",
        "device": cases[0].device,
        "seconds": seconds,
        "capacity": {c.name: round(c.capacity, 2) for c in cases},
        "accepted": checks(points, cases),
        "edf_s_behind": behind(points),
        "points": [_values(p) for p in points],
    }


def checks(points: Sequence[Point], cases: Sequence[Case]) -> dict[str, bool]:
    """What edf-s with admission and all steps must keep, over all its points. How many streams of
    several classes fit depends on who comes first, so that is asked of cases with one class."""
    ours = [p for p in points if p.variant.label == "edf-s + admission"]
    alike = {c.name for c in cases if len(c.classes) == 1}
    share = AT_CAPACITY[cases[0].device]
    return {
        "every_admitted_stream_clean": all(p.broken == 0 for p in ours),
        "admits_what_the_bound_allows": all(
            _admits(p) for p in ours if p.load >= 1.0 and p.case in alike
        ),
        "goodput_at_capacity": all(_reaches(p, share) for p in ours if p.load == 1.0),
        "no_baseline_ahead": not behind(points),
    }


def _admits(p: Point) -> bool:
    """Within one stream of the bound, or within 5 % where streams are small."""
    allowed = (max(1.0, 0.05 * whole) for whole in p.bound_streams)
    pairs = zip(p.bound_streams, p.admitted, allowed, strict=True)
    return all(whole - admitted <= most for whole, admitted, most in pairs)


def _reaches(p: Point, share: float) -> bool:
    return mean(p.goodput) >= share or p.clean == p.bound_streams


def _values(p: Point) -> dict[str, Any]:
    return {
        "case": p.case,
        "load": p.load,
        "policy": p.variant.label,
        "streams_offered": p.offered,
        "streams_bound": mean(p.bound_streams),
        "streams_admitted": round(mean(p.admitted), 2),
        "streams_clean": round(mean(p.clean), 2),
        "on_time_frame_ratio": round(mean(p.on_time), 4),
        "goodput_ratio": round(mean(p.goodput), 4),
        "goodput_ratio_worst": round(min(p.goodput), 4),
        "steps_mean": round(mean(p.steps), 3),
        "batch_rows_mean": round(mean(p.rows), 2),
    }


def tiny_table(cases: Sequence[Tiny]) -> str:
    rows = [
        "| streams | steps | window s | 2 rows / 1 | due | bound | optimum | edf-s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {c.streams} | {c.steps} | {c.ahead * c.period:.2f} | {c.pair:g} | {c.due} | "
        f"{c.bound:.2f} | {c.best} | {c.edf_s} |"
        for c in cases
    ]
    return "\n".join(rows)


def tiny_summary(cases: Sequence[Tiny]) -> dict[str, Any]:
    """How loose the bound is, and how much of the optimum edf-s reaches, over all cases."""
    bound, best = sum(c.bound for c in cases), sum(c.best for c in cases)
    whole, ours = sum(int(c.bound + 1e-6) for c in cases), sum(c.edf_s for c in cases)
    return {
        "benchmark": "policies-exact",
        "cases": len(cases),
        "optimum_to_bound": round(best / bound, 4),
        "optimum_to_whole_bound": round(best / whole, 4),
        "edf_s_to_optimum": round(ours / best, 4),
        "edf_s_to_bound": round(ours / bound, 4),
    }
