"""Admission: refusals with numbers, from measured costs, for each thing that can run out."""

from onbeat.server.engine.admission import Admission, Demand
from onbeat.server.engine.cost import CostModel

LIVE = Demand(rows=3, period=0.2)
PAGES = {"pages": 14, "free": 10_000}


def admission(headroom: float = 0.9, each: float = 0.001, decode: float = 0.001) -> Admission:
    return Admission(
        compute=CostModel({n: 0.005 + each * n for n in (1, 2, 4, 8, 16)}, margin=1.1),
        decode=CostModel({1: decode, 4: 4 * decode}),
        headroom=headroom,
        max_rows=16,
        max_decode_rows=4,
        window_seconds=0.37,
    )


def test_an_idle_engine_admits() -> None:
    assert admission().refuse([], LIVE, **PAGES) is None


def test_one_stream_too_many_is_refused_with_the_numbers() -> None:
    control = admission()
    capacity = control.capacity(LIVE, pages=14, total_pages=10_000)
    refusal = control.refuse([LIVE] * capacity, LIVE, **PAGES)
    assert refusal is not None and refusal.retry_after > 0
    assert f"{capacity + 1} live streams" in refusal.reason
    assert "compute lane" in refusal.reason and "at most 90%" in refusal.reason


def test_the_promise_is_never_above_the_headroom() -> None:
    for headroom in (0.3, 0.6, 0.95):
        control = admission(headroom)
        capacity = control.capacity(LIVE, pages=14, total_pages=10_000)
        assert control.utilisation([LIVE] * capacity) <= headroom
        assert control.utilisation([LIVE] * (capacity + 1)) > headroom


def test_batching_is_counted_on_but_only_as_far_as_deadlines_allow() -> None:
    assert admission().utilisation([LIVE] * 8) < 8 * admission().utilisation([LIVE])
    slow = admission(each=0.02)
    assert slow.utilisation([LIVE] * 8) > 2.0


def test_memory_runs_out() -> None:
    refusal = admission().refuse([], LIVE, pages=14, free=13)
    assert refusal is not None
    assert refusal.reason == "it needs 14 pages of key-value memory, 13 are free"


def test_the_decode_lane_can_be_the_bottleneck() -> None:
    control = admission(decode=0.05)
    capacity = control.capacity(LIVE, pages=14, total_pages=10_000)
    refusal = control.refuse([LIVE] * capacity, LIVE, **PAGES)
    assert capacity == 3
    assert refusal is not None and "decode lane" in refusal.reason


def test_more_steps_are_a_bigger_demand() -> None:
    four = Demand(rows=5, period=0.2)
    assert admission().utilisation([four]) > admission().utilisation([LIVE])


def test_a_slower_machine_admits_fewer() -> None:
    cost = CostModel({n: 0.005 + 0.001 * n for n in (1, 2, 4, 8, 16)})
    control = Admission(
        compute=cost,
        decode=CostModel({1: 0.001}),
        headroom=0.9,
        max_rows=16,
        max_decode_rows=4,
        window_seconds=0.37,
    )
    before = control.capacity(LIVE, pages=14, total_pages=10_000)
    for _ in range(200):
        cost.observe(8, 0.026)
    assert control.capacity(LIVE, pages=14, total_pages=10_000) < before
