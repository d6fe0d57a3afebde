"""Counting what can be on time, and choosing who gives way, against plain restatements."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.policies.feasible import (
    HORIZON_CHUNKS,
    demand,
    fewest_late,
    knee,
    late,
    slack,
    useful_sizes,
    victims,
)
from onbeat.server.engine.scheduler import Candidate
from tests.server.engine.test_scheduler import row


def test_slack_is_what_the_tightest_chunk_leaves() -> None:
    work = demand(0.0, [row("a", 0.5, rows_needed=1), row("b", 0.1, rows_needed=3)], whole=False)
    assert slack(0.0, work, 0.01) == min(0.1 - 0.03, 0.3 - 0.05 - 0.01)


def test_the_next_chunks_of_every_stream_are_work_too() -> None:
    work = demand(0.0, [row("a", 0.5, period=0.2, chunk_rows=3)], whole=True)
    assert [round(entry[0], 6) for entry in work] == [0.5, 0.7, 0.9]
    assert [entry[2] for entry in work] == [2, 3, 3]
    assert sum(entry[4] for entry in work) == 1 + HORIZON_CHUNKS


def test_the_commit_of_a_later_chunk_does_not_wait_for_its_release() -> None:
    later = row("a", 0.1, rows_needed=0, steps_done=1, arrival=-0.1, period=0.2, chunk_rows=3)
    work = demand(0.0, [later], whole=True)[1:]
    assert [(entry[2], entry[3]) for entry in work] == [(3, 2), (3, 2)]
    assert late(0.0, work, 2, 0.09, 99) == 0 and late(0.0, work, 2, 0.11, 99) == 2


def test_equal_chunks_are_one_entry() -> None:
    work = demand(0.0, [row(f"s{i}", 0.5, order=i) for i in range(64)], whole=False)
    assert len(work) == 1 + HORIZON_CHUNKS and work[0][4] == 64


def test_counting_leaves_out_what_is_late_anyway() -> None:
    work = [(0.005, -1.0, 1, 1, 1), (0.03, -1.0, 1, 1, 2)]
    assert late(0.0, work, 1, 0.0105, 99) == 1
    assert late(0.0, work, 2, 0.0105, 99) == 1


def test_counting_stops_beyond_what_is_allowed() -> None:
    work = [(0.005, -1.0, 1, 1, 3), (0.006, -1.0, 1, 1, 4), (0.007, -1.0, 1, 1, 5)]
    assert [late(0.0, work, 1, 0.01, allowed) for allowed in (0, 3, 99)] == [3, 7, 12]


@given(
    entries=st.lists(
        st.tuples(st.floats(0.0, 0.5), st.floats(-0.1, 0.3), st.integers(1, 4), st.integers(1, 4)),
        max_size=12,
    ),
    size=st.integers(1, 8),
)
def test_equal_chunks_count_as_if_one_by_one(
    entries: list[tuple[float, float, int, int]], size: int
) -> None:
    work = [(d, r, n, n, count) for d, r, n, count in sorted(entries)]
    apart = [(d, r, n, n, 1) for d, r, n, _, count in work for _ in range(count)]
    assert late(0.0, work, size, 0.01, 99) == late(0.0, apart, size, 0.01, 99)


def test_the_size_with_the_fewest_late_chunks_wins_then_the_fastest() -> None:
    sizes = [(1, 0.010), (2, 0.012), (4, 0.030)]
    work = [(0.025, -1.0, 2, 2, 4)]
    assert [late(0.0, work, n, t, 99) for n, t in sizes] == [3, 2, 4]
    assert fewest_late(0.0, work, sizes, 1.0, before=4) == (2, 0.012)
    assert fewest_late(0.0, [(9.0, -1.0, 1, 1, 1)], sizes, 1.0, before=1) == (2, 0.012)


def test_useful_sizes_are_those_that_pay() -> None:
    humped = CostModel({1: 0.010, 2: 0.011, 3: 0.020, 4: 0.021, 8: 0.040, 16: 0.100})
    sizes = useful_sizes(humped, 16)
    assert [n for n, _ in sizes] == [1, 2, 4, 6, 8, 16]
    assert sizes[knee(sizes, humped)][0] == 6


def test_on_a_saturated_device_one_row_is_enough() -> None:
    linear = CostModel({1: 0.01, 16: 0.16})
    assert knee(useful_sizes(linear, 16), linear) == 0


def test_no_row_is_left_over_for_a_batch_of_its_own() -> None:
    cost = CostModel({1: 0.011, 8: 0.028, 9: 0.031, 16: 0.062})
    sizes = useful_sizes(cost, 9)
    assert sizes[knee(sizes, cost)][0] == 9
    sizes = useful_sizes(cost, 16)
    assert sizes[knee(sizes, cost)][0] == 8


def lose(rows: list[Candidate], greedy: frozenset[str] = frozenset()) -> set[str]:
    """In batches of one row of 10 ms."""
    return victims(0.0, rows, 1, 0.01, needed=True, greedy=greedy)


def test_nobody_gives_way_if_all_fit() -> None:
    assert lose([row(f"s{i}", 0.1) for i in range(10)]) == set()


def test_the_stream_with_the_most_credit_gives_way() -> None:
    rows = [row(f"s{i}", 0.035, credit=i % 3, order=i) for i in range(4)]
    assert lose(rows) == {"s2"}


def test_the_owner_above_its_share_gives_way_first() -> None:
    rows = [row(f"s{i}", 0.035, owner="a" if i else "b", credit=1 - i) for i in range(4)]
    assert lose(rows, greedy=frozenset("a")) == {"s1"}


def test_what_has_begun_is_kept_before_what_has_not() -> None:
    begun = [row(f"b{i}", 0.035, steps_done=1, rows_needed=1, credit=1) for i in range(2)]
    new = [row(f"n{i}", 0.035, credit=0) for i in range(2)]
    assert len(lose([*begun, *new])) == 1 and lose([*begun, *new]) <= {"n0", "n1"}


def test_what_is_late_alone_makes_nobody_else_give_way() -> None:
    assert lose([row("gone", 0.005), row("a", 0.015), row("b", 0.025)]) == set()


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 30)), min_size=1, max_size=8))
def test_with_equal_credit_as_few_give_way_as_moore_and_hodgson_say(
    chunks: list[tuple[int, int]],
) -> None:
    fitting = [(n, d) for n, d in chunks if n <= d]
    rows = [
        row(f"s{i}", 0.01 * d + 1e-6, rows_needed=n, rows_left=n, order=i)
        for i, (n, d) in enumerate(fitting)
    ]
    assert len(fitting) - len(lose(rows)) == _most_on_time(fitting)


def _most_on_time(chunks: list[tuple[int, int]]) -> int:
    """Over all subsets, by deadline."""
    for count in range(len(chunks), 0, -1):
        for chosen in combinations(sorted(chunks, key=lambda c: c[1]), count):
            done = 0
            if all((done := done + n) <= d for n, d in chosen):
                return count
    return 0
