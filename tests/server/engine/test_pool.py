"""Pages: promised, taken, shared by content, given back; the books always agree."""

import pytest

from onbeat.server.engine.kv_store import KVStore
from onbeat.server.engine.pool import KVPool, PoolExhausted, pages_per_stream
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


def test_the_view_has_the_shapes_of_the_contract() -> None:
    kv = KVStore(SPEC, 6).view([[0, -1, 1, 2], [0, 3, 4, 5]], [-1, 1])
    assert kv.k.shape == (SPEC.layers, 6, SPEC.page_tokens, SPEC.heads, SPEC.head_dim)
    assert kv.page_table.tolist() == [[0, -1, 1, 2], [0, 3, 4, 5]]
    assert kv.write_pages.tolist() == [-1, 1]


def test_a_stream_needs_its_window_a_page_to_write_and_a_prompt() -> None:
    assert pages_per_stream(SPEC) == SPEC.window_chunks + 2


def test_promises_are_kept_whatever_is_shared() -> None:
    pool = KVPool(6)
    pool.reserve(4)
    with pytest.raises(PoolExhausted, match="3 pages to be reserved, 2 of 6 are not"):
        pool.reserve(3)
    pages = pool.take(2)
    pool.hold(*pages)
    pool.give_back(*pages)
    assert pool.used == 2
    pool.check_integrity([pages])
    pool.give_back(*pages)
    pool.release(4)
    pool.check_integrity([])
    with pytest.raises(AssertionError, match="1 pages released, 0 reserved"):
        pool.release(1)


def test_a_page_is_found_by_what_it_holds_while_somebody_holds_it() -> None:
    pool = KVPool(3)
    first, second = pool.take(2)
    pool.name(first, "sea")
    pool.name(second, "sea")
    assert pool.find("sea") == first and pool.find("sky") is None
    pool.give_back(first)
    assert pool.find("sea") == first
    pool.give_back(first, first)
    assert pool.find("sea") is None
    pool.reserve(1)
    pool.check_integrity([[second]])


def test_books_that_differ_from_what_is_held_are_caught() -> None:
    pool = KVPool(3)
    pool.reserve(2)
    pages = pool.take(2)
    with pytest.raises(AssertionError, match="held"):
        pool.check_integrity([pages[:1]])
    pool.release(1)
    with pytest.raises(AssertionError, match="2 pages used, 1 reserved"):
        pool.check_integrity([pages])
