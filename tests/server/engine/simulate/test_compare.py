"""The comparison: edf-s keeps its promises, nobody is ahead, tables and plot are whole."""

import json

import pytest

from onbeat.server.engine.simulate.cases import Case, cases
from onbeat.server.engine.simulate.compare import VARIANTS, Point, Variant, behind, measure
from onbeat.server.engine.simulate.plot import svg
from onbeat.server.engine.simulate.random_cases import promises
from onbeat.server.engine.simulate.report import (
    checks,
    grid,
    line,
    summary,
    tiny_summary,
    tiny_table,
)
from onbeat.server.engine.simulate.tiny import tiny_cases

SECONDS = 15.0
OURS = Variant(policy="edf-s", admission=True)


def case(device: str, name: str) -> Case:
    return next(c for c in cases(device) if c.name == name)


def points(device: str, name: str, load: float, variants: tuple[Variant, ...]) -> list[Point]:
    return [measure(case(device, name), load, v, seeds=1, seconds=SECONDS) for v in variants]


@pytest.mark.parametrize(
    ("device", "name", "load"),
    [("A", "large", 1.0), ("A", "large", 1.25), ("B", "large", 1.25), ("A", "small", 1.0)],
)
def test_edf_s_keeps_its_promises_at_and_past_capacity(device: str, name: str, load: float) -> None:
    kept = checks(points(device, name, load, (OURS,)), [case(device, name)])
    assert all(kept.values()), kept


@pytest.mark.parametrize("device", ["A", "B"])
def test_no_baseline_is_ahead_past_capacity(device: str) -> None:
    variants = tuple(v for v in VARIANTS if not v.anytime)
    measured = points(device, "large", 1.25, variants)
    assert behind(measured) == []
    greedy = next(p for p in measured if p.variant == Variant(policy="orca", admission=False))
    ours = next(p for p in measured if p.variant == Variant(policy="edf-s", admission=False))
    assert ours.goodput[0] > 1.5 * greedy.goodput[0]


@pytest.mark.parametrize("seed", range(12))
def test_promises_are_kept_in_random_cases(seed: int) -> None:
    assert promises(seed).kept


def test_capacity_is_what_the_cheapest_row_allows() -> None:
    assert case("A", "large").capacity == pytest.approx(16.06, abs=0.01)
    assert case("B", "large").capacity == pytest.approx(5.0)
    assert 40 <= case("A", "small").capacity <= 100 and 40 <= case("B", "small").capacity <= 100


def test_tables_json_and_plot_hold_every_point() -> None:
    variants = (
        OURS,
        Variant(policy="edf-s", admission=False),
        Variant(policy="orca", admission=False),
    )
    measured = points("B", "large", 1.0, variants) + points("B", "large", 1.25, variants)
    table = grid(measured, "large")
    assert table.count("\n") == 5 and "| orca |" in table and "1.25x" in table
    assert line(measured[0]).startswith("| large | 1 | edf-s + admission | 5 | 5 | 5 |")
    values = json.loads(json.dumps(summary(measured, [case("B", "large")], SECONDS)))
    assert len(values["points"]) == 6 and values["accepted"]["every_admitted_stream_clean"]
    drawing = svg({"B, large": measured})
    assert drawing.startswith("<svg") and drawing.count("<polyline") == 3


def test_tiny_cases_say_how_loose_the_bound_is() -> None:
    found = tiny_cases(4)
    assert all(c.edf_s <= c.best < c.due and c.best <= c.bound + 1e-6 for c in found)
    assert tiny_table(found).count("\n") == 5
    assert 0.5 < tiny_summary(found)["optimum_to_bound"] <= 1.0
