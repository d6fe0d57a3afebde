"""The cost table: reading it, learning from forwards, never stuck on a bad measurement."""

import pytest

from onbeat.server.engine.cost import CostModel, rising
from onbeat.server.engine.measure import cost_table, measure


def test_between_and_beyond_measured_sizes_the_cost_is_linear() -> None:
    cost = CostModel({1: 0.010, 2: 0.012, 4: 0.016, 8: 0.032})
    assert cost.median(1) == 0.010
    assert cost.median(3) == pytest.approx(0.014)
    assert cost.median(6) == pytest.approx(0.024)
    assert cost.median(12) == pytest.approx(0.048)


def test_one_measured_size_scales() -> None:
    assert CostModel({2: 0.02}).median(4) == pytest.approx(0.04)


def test_a_prediction_lies_above_the_median() -> None:
    cost = CostModel({1: 0.010, 2: 0.012}, margin=1.3)
    assert cost.predict(2) == pytest.approx(1.3 * 0.012)


def test_the_cheapest_row_is_found_among_the_sizes_allowed() -> None:
    cost = CostModel({1: 0.010, 4: 0.020, 8: 0.080})
    assert cost.row_seconds(1) == 0.010
    assert cost.row_seconds(8) == pytest.approx(0.005)


def test_a_slower_machine_is_learned_for_the_size_seen_and_slowly_for_others() -> None:
    cost = CostModel({1: 0.010, 4: 0.020, 16: 0.060})
    for _ in range(100):
        cost.observe(4, 0.030)
    assert cost.median(4) == pytest.approx(0.030, rel=0.05)
    assert 0.060 < cost.median(16) < 0.2


def test_the_margin_follows_the_tail() -> None:
    cost = CostModel({1: 0.010}, margin=1.0)
    for i in range(320):
        cost.observe(1, 0.015 if i % 20 == 0 else 0.010)
    assert cost.margin > 1.3
    for _ in range(600):
        cost.observe(1, 0.010)
    assert cost.margin == pytest.approx(1.05)


def test_a_size_measured_badly_is_tried_again() -> None:
    """At start the machine was busy just when two rows were measured: without another try the
    marginal rule would never run two rows again."""
    cost = CostModel({1: 0.010, 2: 0.040, 4: 0.080})
    for _ in range(500):
        cost.observe(1, 0.010)
    assert 2 / cost.median(2) > 1.02 / cost.median(1)


def test_a_stall_is_not_taken_for_a_cost() -> None:
    cost = CostModel({1: 0.010, 16: 0.060})
    cost.observe(16, 0.200)
    assert cost.median(16) < 1.04 * 0.060
    for _ in range(40):
        cost.observe(16, 0.100)
    assert cost.median(16) > 0.090, "what lasts is learnt"


def test_small_batches_are_not_hoped_to_be_as_cheap_per_row_as_big_ones() -> None:
    cost = CostModel({1: 0.010, 4: 0.018, 24: 0.070})
    for _ in range(500):
        cost.observe(24, 0.070)
    assert cost.median(4) == pytest.approx(0.018, rel=0.05)


def test_bigger_batches_never_cost_less() -> None:
    assert rising([1.0, 3.0, 2.0, 4.0]) == [1.0, 2.5, 2.5, 4.0]
    assert rising([3.0, 2.0, 1.0]) == [2.0, 2.0, 2.0]


def test_measuring_runs_every_size_in_turn() -> None:
    seen: list[int] = []
    samples = measure([1, 2, 4], seen.append, seconds=0.0, rounds=3)
    cost = cost_table("step", samples, tokens=20, window=12).model()
    assert seen[:6] == [1, 2, 4, 1, 2, 4]
    assert set(cost.table()) == {1, 2, 4}


def test_a_table_from_a_busy_moment_is_corrected_within_a_few_forwards() -> None:
    cost = CostModel({1: 10.0, 4: 12.0})
    for _ in range(12):
        cost.observe(1, 0.005)
    assert cost.median(1) <= 0.020 and cost.median(4) < 0.03


def test_one_quick_forward_says_little_of_larger_batches() -> None:
    cost = CostModel({1: 0.011, 16: 0.050})
    cost.observe(1, 0.004)
    assert cost.median(16) > 0.049


def test_quick_single_rows_promise_nothing_for_large_batches() -> None:
    """One viewer on a resting machine is no proof that forty fit."""
    cost = CostModel({1: 0.011, 4: 0.019, 16: 0.050})
    before = cost.promised_row_seconds(16)
    for _ in range(3000):
        cost.observe(1, 0.006)
    assert cost.row_seconds(16) < before
    assert cost.promised_row_seconds(16) == before


def test_what_was_calibrated_in_a_busy_moment_is_promised_better_once_it_has_run() -> None:
    cost = CostModel({1: 0.040, 4: 0.080, 16: 0.200})
    for _ in range(1000):
        cost.observe(4, 0.030)
    assert cost.promised_row_seconds(4) == pytest.approx(0.030 / 4, rel=0.05)
    assert cost.promised_row_seconds(16) <= 0.030 / 4 * 1.05


def test_a_start_in_a_busy_moment_does_not_keep_others_out_when_only_single_rows_run() -> None:
    """Nobody else comes in, so that larger batches are never seen: single rows have to tell."""
    cost = CostModel({1: 0.060, 4: 0.120, 16: 0.300})
    before = cost.promised_row_seconds(16)
    for _ in range(500):
        cost.observe(1, 0.016)
    assert cost.promised_row_seconds(16) < 0.6 * before


def test_lasting_slowness_lowers_what_is_promised() -> None:
    cost = CostModel({1: 0.010, 4: 0.020})
    before = cost.promised_row_seconds(4)
    for _ in range(1000):
        cost.observe(4, 0.040)
    assert cost.promised_row_seconds(4) > 1.9 * before


def test_a_start_on_a_busy_machine_promises_less_until_it_is_quiet_again() -> None:
    cost = CostModel({1: 0.030, 4: 0.060, 16: 0.150}, slowed=3.0)
    assert cost.median(16) == 0.150
    assert cost.promised_row_seconds(16) == pytest.approx(0.150 / 16)
    for _ in range(500):
        cost.observe(1, 0.010)
    assert cost.promised_row_seconds(16) == pytest.approx(0.050 / 16, rel=0.05)
