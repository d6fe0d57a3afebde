"""Admission: refusals with numbers, from measured costs, for each thing that can run out."""

from dataclasses import replace

from onbeat.server.engine.admission import Admission, Refusal
from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.forward import Demand
from tests.server.engine.test_forward import RATIOS

LIVE = Demand(rows=3, period=0.2, window=0.4)
PAGES = {"pages": 14, "free": 10_000}


def admission(
    headroom: float = 0.9,
    each: float = 0.001,
    decode: float = 0.001,
    compute: CostModel | None = None,
) -> Admission:
    cost = CostModel({n: 0.005 + each * n for n in (1, 2, 4, 8, 16)}, margin=1.1)
    return Admission(
        compute=compute or cost,
        decode=CostModel({1: decode, 4: 4 * decode}),
        headroom=headroom,
        max_rows=16,
        max_decode_rows=4,
        delivery_seconds=0.03,
    )


def test_an_idle_engine_admits() -> None:
    assert admission().refuse([], LIVE, **PAGES) is None


def test_one_stream_too_many_is_refused_with_the_numbers() -> None:
    control = admission()
    capacity = control.capacity(LIVE, pages=14, total_pages=10_000)
    refusal = control.refuse([LIVE] * capacity, LIVE, **PAGES)
    assert refusal is not None
    assert f"{capacity + 1} live streams" in refusal.reason
    assert "compute lane" in refusal.reason and "at most 90%" in refusal.reason


def test_the_promise_is_never_above_the_headroom() -> None:
    for headroom in (0.3, 0.6, 0.95):
        control = admission(headroom)
        capacity = control.capacity(LIVE, pages=14, total_pages=10_000)
        assert control.utilisation([LIVE] * capacity) <= 1.005 * headroom
        assert control.refuse([LIVE] * (capacity + 1), LIVE, **PAGES) is not None


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
    four = replace(LIVE, rows=5)
    assert admission().utilisation([four]) > admission().utilisation([LIVE])


def test_a_slower_machine_admits_fewer() -> None:
    cost = CostModel({n: 0.005 + 0.001 * n for n in (1, 2, 4, 8, 16)})
    control = admission(compute=cost)
    before = control.capacity(LIVE, pages=14, total_pages=10_000)
    for _ in range(200):
        cost.observe(8, 0.026)
    assert control.capacity(LIVE, pages=14, total_pages=10_000) < before


def admitted(costs: CostModel, window: float) -> list[float]:
    """The phases of five-forward streams every 0.75 s that come in one after the other."""
    control = admission(headroom=1.0, compute=costs, decode=0.0001)
    control._delivery = 0.0
    live: list[Demand] = []
    while True:
        new = Demand(rows=5, period=0.75, window=window)
        answer = control.admit(live, new, pages=1, free=99)
        if isinstance(answer, Refusal):
            return [d.phase for d in live]
        live.append(replace(new, phase=answer.phase))


def test_with_all_of_the_lane_promised_five_of_five_large_streams_come_in() -> None:
    phases = admitted(CostModel({n: 0.030 * n for n in (1, 2, 4, 8, 16)}, margin=1.05), 0.751)
    assert len(phases) == 5 and len(set(phases)) == 5


def test_with_all_of_the_lane_promised_fifteen_of_sixteen_small_streams_come_in() -> None:
    table = {n: 0.030 * t / RATIOS[1] for n, t in RATIOS.items()}
    for window in (0.751, 1.5):
        assert 15 <= len(admitted(CostModel(table, margin=1.05), window)) <= 16


def test_a_plan_that_makes_a_chunk_late_is_refused_though_the_lane_has_room() -> None:
    slow, rare = CostModel({1: 0.10, 16: 0.11}), replace(LIVE, period=2.0, window=0.22)
    refusal = admission(compute=slow).refuse([rare] * 2, rare, **PAGES)
    assert refusal is not None and "late" in refusal.reason
