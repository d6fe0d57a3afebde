"""Buckets, padding rows and halves give every row the bits that it has by itself."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from onbeat.models.toybox.model import Toybox
from onbeat.server.engine.graphs import GraphedForward, Shape, Work, capture_plan, choose
from onbeat.server.engine.kv_store import KVStore

PAGES = 40


@pytest.fixture(scope="module")
def model() -> Toybox:
    return Toybox.random(5)


def whole(rows: int) -> Shape:
    return Shape(rows=rows, halves=False)


def halved(rows: int) -> Shape:
    return Shape(rows=rows, halves=True)


def test_every_bucket_is_recorded_and_large_ones_in_halves_too() -> None:
    assert capture_plan(5, 0) == [whole(n) for n in (1, 2, 3, 4, 5)]
    assert capture_plan(8, 6) == [*map(whole, (1, 2, 3, 4, 6, 8)), halved(6), halved(8)]


@pytest.mark.parametrize(
    ("rows", "pieces", "expected"),
    [
        (1, [], whole(1)),
        (5, [], halved(6)),
        (5, [1, 1], halved(6)),
        (6, [4], whole(6)),
        (6, [3], halved(6)),
        (4, [2], whole(4)),
        (9, [], None),
    ],
)
def test_the_smallest_bucket_and_no_cut_through_a_piece(
    rows: int, pieces: list[int], expected: Shape | None
) -> None:
    assert choose(capture_plan(8, 5), rows, pieces) == expected


def again(work: Work) -> Work:
    """A recording that runs its work anew."""
    work()
    return work


def one_after_the_other(first: Work, second: Work) -> None:
    second()
    first()


class Case:
    """A batch on random pages: half its rows have holes in their window, the last two commit."""

    def __init__(self, model: Toybox, rows: int) -> None:
        spec, draw = model.spec, torch.Generator().manual_seed(rows)
        self.latents = {
            m.name: torch.randn(rows, m.tokens, m.dim, generator=draw) for m in spec.modalities
        }
        self.times = {m.name: torch.rand(rows, generator=draw) for m in spec.modalities}
        self.pooled = list(torch.randn(rows, spec.cond_dim, generator=draw).unbind(0))
        pages = torch.randint(0, PAGES - 4, (rows, spec.page_slots), generator=draw).tolist()
        self.tables: list[list[int]] = [
            [row[0], *[-1] * (i % 2 * 5), *row[1 + i % 2 * 5 :]] for i, row in enumerate(pages)
        ]
        self.written = [-1] * (rows - 2) + [PAGES - 1, PAGES - 2] if rows > 2 else [-1] * rows

    def direct(self, model: Toybox, store: KVStore) -> dict[str, Tensor]:
        kv = store.view(self.tables, self.written)
        return model.denoise(self.latents, self.times, torch.stack(self.pooled), kv)

    def graphed(self, graphs: GraphedForward, pieces: Sequence[int]) -> dict[str, Tensor] | None:
        parts = (self.latents, self.times, self.pooled, self.tables, self.written)
        return graphs(*parts, pieces)


def filled_store(model: Toybox) -> KVStore:
    store, draw = KVStore(model.spec, PAGES), torch.Generator().manual_seed(0)
    store.k.normal_(generator=draw)
    store.v.normal_(generator=draw)
    return store


@pytest.mark.parametrize("split_rows", [0, 2])
@torch.inference_mode()
def test_padded_and_halved_batches_have_the_same_bits(model: Toybox, split_rows: int) -> None:
    plain, store = filled_store(model), filled_store(model)
    shapes = capture_plan(8, split_rows)
    graphs = GraphedForward(model, store, shapes, record=again, fork=one_after_the_other)
    graphs.record()
    assert torch.equal(plain.k, store.k), "recording writes no page"
    for rows in (1, 2, 5, 7, 8, 3):
        case = Case(model, rows)
        expected = case.direct(model, plain)
        found = case.graphed(graphs, [1, 1] if rows > 2 else [])
        assert found is not None
        assert all(torch.equal(expected[name], found[name]) for name in expected), rows
        assert torch.equal(plain.k, store.k) and torch.equal(plain.v, store.v), rows


@torch.inference_mode()
def test_results_outlive_the_next_replay_and_large_batches_are_refused(model: Toybox) -> None:
    store = filled_store(model)
    graphs = GraphedForward(
        model, store, capture_plan(2, 0), record=again, fork=one_after_the_other
    )
    graphs.record()
    first, second = Case(model, 2), Case(model, 1)
    found = first.graphed(graphs, [])
    second.graphed(graphs, [])
    assert found is not None
    expected = first.direct(model, store)
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert Case(model, 3).graphed(graphs, [1]) is None
