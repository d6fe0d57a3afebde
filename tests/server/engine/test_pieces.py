"""Pieces: one of one stream beside neighbours, as wide as their slack allows, never nothing."""

from typing import Any

import pytest

from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.pieces import PIECE_ROWS, fit_pieces, narrowed
from onbeat.server.engine.scheduler import Candidate

COST = CostModel({n: 0.01 * n for n in (1, 2, 4, 8, 16)}, margin=1.05)


def row(name: str, **more: Any) -> Candidate:
    values: dict[str, Any] = {
        "stream": name,
        "kind": "live",
        "work": "step",
        "chunk": 3,
        "order": 1,
        "release": 0.0,
        "arrival": 0.0,
        "deadline": 1.0,
        "period": 0.2,
        "rows_left": 2,
        "rows_needed": 1,
        "steps_done": 0,
        "chunk_rows": 3,
        "droppable": True,
    }
    return Candidate(**{**values, **more})


def piece(name: str, backlog: int = 12, **more: Any) -> Candidate:
    width = min(PIECE_ROWS, backlog)
    count = -(-backlog // width)
    return row(
        name,
        work="commit",
        width=width,
        backlog=backlog,
        rows_left=count + 2,
        rows_needed=count + 1,
        droppable=False,
        **more,
    )


def fitted(candidates: list[Candidate], max_rows: int = 16) -> dict[str, int]:
    return {c.stream: c.width for c in fit_pieces(0.0, candidates, COST, max_rows)}


@pytest.mark.parametrize(("deadline", "width"), [(1.0, 4), (0.16, 3), (0.12, 2), (0.03, 1)])
def test_a_piece_is_as_wide_as_the_neighbours_slack_allows(deadline: float, width: int) -> None:
    assert fitted([row("a", deadline=deadline), piece("b")]) == {"a": 1, "b": width}


def test_a_tick_with_neighbours_takes_one_piece() -> None:
    late = piece("late", deadline=3.0)
    prompt = row("prompt", work="prefill", deadline=2.0, droppable=False)
    assert fitted([row("a"), late, prompt]) == {"a": 1, "prompt": 1}
    assert fitted([row("a"), late, row("prompt", work="prefill", deadline=4.0)]) == {
        "a": 1,
        "late": 4,
    }


def test_without_neighbours_pieces_fill_the_batch() -> None:
    pieces = [piece(f"s{i}", order=i) for i in range(5)]
    assert fitted(pieces, max_rows=10) == {"s0": 4, "s1": 4, "s2": 2}


def test_the_last_chunk_of_a_window_is_a_commit_like_any_other() -> None:
    ordinary = row("b", work="commit", backlog=1)
    assert fitted([row("a"), ordinary, piece("c")]) == {"a": 1, "b": 1, "c": 4}


def test_narrower_pieces_are_more_forwards() -> None:
    wide = piece("a")
    assert narrowed(wide, 8) is wide
    assert narrowed(wide, 1) == wide._replace(width=1, rows_left=14, rows_needed=13)
