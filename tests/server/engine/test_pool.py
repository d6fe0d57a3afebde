"""Pages: taken, shared, given back; tables right-aligned; a commit never hits a page in use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.pool import KVPool, PoolExhausted, Window, pages_per_stream
from tests.server.engine.fake import SPEC


def test_pages_come_back() -> None:
    pool = KVPool(10)
    pages = pool.take(4)
    assert (pool.used, pool.free) == (4, 6)
    pool.give_back(*pages)
    assert pool.used == 0
    pool.check_integrity()


def test_more_pages_than_there_are_take_none() -> None:
    pool = KVPool(3)
    with pytest.raises(PoolExhausted, match="4 pages wanted, 3 of 3 free"):
        pool.take(4)
    assert pool.used == 0


def test_streams_with_one_prompt_share_its_page() -> None:
    pool = KVPool(4)
    first, second = pool.take_sink("red"), pool.take_sink("red")
    assert first == second != pool.take_sink("blue")
    pool.mark_filled(first)
    pool.give_back(first)
    assert pool.is_filled(second)
    pool.give_back(second)
    assert pool.used == 1
    assert not pool.is_filled(pool.take_sink("red"))
    pool.check_integrity()


def test_giving_back_twice_is_caught() -> None:
    pool = KVPool(2)
    (page,) = pool.take(1)
    pool.give_back(page)
    with pytest.raises(AssertionError, match="given back twice"):
        pool.give_back(page)


def test_tables_are_right_aligned_and_slide() -> None:
    window = Window([10, 11, 12, 13])
    assert window.table(7) == [7, -1, -1, -1]
    for _ in range(2):
        window.advance()
    assert window.table(7) == [7, -1, 10, 11]
    for _ in range(3):
        window.advance()
    assert window.table(7) == [7, 12, 13, 10]


@given(commits=st.integers(0, 40), size=st.integers(2, 14))
def test_a_commit_never_writes_to_a_page_that_is_read(commits: int, size: int) -> None:
    window = Window(list(range(size)))
    for _ in range(commits):
        assert window.next_page() not in window.readable()
        window.advance()
    assert len(window.readable()) == min(commits, size - 1)


def test_the_view_has_the_shapes_of_the_contract() -> None:
    kv = KVStore(SPEC, 6).view([[0, -1, 1, 2], [0, 3, 4, 5]], [-1, 1])
    assert kv.k.shape == (SPEC.layers, 6, SPEC.page_tokens, SPEC.heads, SPEC.head_dim)
    assert kv.page_table.tolist() == [[0, -1, 1, 2], [0, 3, 4, 5]]
    assert kv.write_pages.tolist() == [-1, 1]


def test_a_stream_needs_its_window_a_page_to_write_and_a_prompt() -> None:
    assert pages_per_stream(SPEC) == SPEC.window_chunks + 2


def test_a_window_that_forgets_fills_again_from_what_it_keeps() -> None:
    window = Window([10, 11, 12, 13])
    for _ in range(5):
        window.advance()
    window.forget(1)
    assert window.table(9) == [9, -1, -1, window.readable()[-1]]
    newest = window.readable()[-1]
    page = window.next_page()
    window.advance()
    assert window.readable() == [newest, page]
    window.forget(2)
    assert len(window) == 2
    window.forget(0)
    assert window.table(9) == [9, -1, -1, -1]
