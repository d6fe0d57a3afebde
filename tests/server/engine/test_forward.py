"""The plan run forward: shared instants where batching pays, staggered ones where it does not."""

import time

import pytest

from onbeat.server.engine.forward import Batches, Demand, Outlook, best_phase, run_forward

RATIOS = {1: 0.167, 2: 0.183, 3: 0.186, 4: 0.240, 8: 0.425, 16: 0.832}
"""Relative costs of batches of 512x512 pictures on an H200, as published for one image model."""
PERIOD = 0.75


def batch_friendly() -> Batches:
    sizes = sorted(RATIOS)
    times = []
    for n in range(1, 17):
        high = next(s for s in sizes if s >= n)
        low = max((s for s in sizes if s <= n), default=1)
        share = (n - low) / (high - low) if high > low else 0.0
        times.append(RATIOS[low] + share * (RATIOS[high] - RATIOS[low]))
    return Batches([0.030 * t / RATIOS[1] for t in times])


def linear() -> Batches:
    return Batches([0.030 * n for n in range(1, 17)])


def fill(batches: Batches, streams: int, window: float = PERIOD) -> list[Outlook]:
    """Admits one after the other, whether they fit or not."""
    live: list[Demand] = []
    out = []
    for _ in range(streams):
        new = Demand(rows=5, period=PERIOD, window=window)
        outlook = best_phase(live, new, batches)
        out.append(outlook)
        live.append(Demand(rows=5, period=PERIOD, window=window, phase=outlook.phase))
    return out


def test_where_batching_pays_streams_share_an_instant() -> None:
    outlooks = fill(batch_friendly(), 15)
    assert {o.phase for o in outlooks} == {0.0}
    assert all(o.slack > 0 for o in outlooks)


def test_where_batching_does_not_pay_streams_get_instants_of_their_own() -> None:
    outlooks = fill(linear(), 5)
    assert len({o.phase for o in outlooks}) == 5
    assert all(o.slack > 0.4 for o in outlooks)


def test_a_full_lane_is_seen_in_the_slack() -> None:
    assert fill(batch_friendly(), 18)[-1].slack < 0
    assert fill(linear(), 9)[-1].slack < 0


def test_one_stream_alone_has_what_its_rows_leave() -> None:
    stream = Demand(rows=5, period=PERIOD, window=PERIOD)
    slack, busy = run_forward([stream], linear(), -1.0)
    assert slack == pytest.approx(PERIOD - 0.12), "its commit is not awaited"
    assert busy == pytest.approx(2 * 0.15)


def test_few_left_over_rows_join_the_batch() -> None:
    assert batch_friendly().taken[9] == 9
    assert linear().taken[9] == 1


def test_it_is_quick_enough_for_the_tick() -> None:
    """2 ms for 16 streams and 5 ms for 64 on a quiet machine; ten times that is
    asserted, since other tests run beside."""
    for streams, allowed in ((16, 0.020), (64, 0.050)):
        live = [
            Demand(rows=5, period=PERIOD, window=2 * PERIOD, phase=(0.37 * i) % PERIOD)
            for i in range(streams - 1)
        ]
        new = Demand(rows=5, period=PERIOD, window=2 * PERIOD)
        quick = Batches([0.001 * n for n in range(1, 17)])
        times = []
        for _ in range(7):
            started = time.perf_counter()
            best_phase(live, new, quick)
            times.append(time.perf_counter() - started)
        assert min(times) < allowed, (streams, times)
