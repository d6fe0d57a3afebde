"""Policies as functions: what runs, what ends early, what is dropped, given a clock and costs."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.policies import make_policy
from onbeat.server.engine.policies.edf_s import EdfS
from onbeat.server.engine.policies.fcfs_chunk import FcfsChunk
from onbeat.server.engine.policies.static import StaticBatch
from onbeat.server.engine.scheduler import Candidate
from onbeat.server.engine.settings import POLICIES, EngineSettings

COST = CostModel({n: 0.008 + 0.002 * n for n in (1, 2, 4, 8, 16)}, margin=1.1)
FLAT = CostModel({n: 0.010 * n for n in (1, 2, 4, 8, 16)}, margin=1.1)
"""A saturated device: a batch costs what its rows cost one by one."""


def row(stream: str, deadline: float = 1.0, **more: Any) -> Candidate:
    values: dict[str, Any] = {
        "kind": "live",
        "work": "step",
        "chunk": 5,
        "order": 0,
        "release": -1.0,
        "arrival": -0.1,
        "period": 0.2,
        "rows_left": 2,
        "rows_needed": 1,
        "steps_done": 0,
        "chunk_rows": 3,
        "droppable": True,
    }
    return Candidate(stream=stream, deadline=deadline, **{**values, **more})


def job(stream: str, **more: Any) -> Candidate:
    return row(stream, float("inf"), kind="job", period=0.0, droppable=False, **more)


def edf(**more: Any) -> EdfS:
    return EdfS(max_rows=16, **more)


def test_the_earliest_deadline_comes_first() -> None:
    plan = edf().plan(0.0, [row("late", 0.9), row("soon", 0.3), row("next", 0.5)], COST)
    assert plan.rows == ("soon", "next", "late")


def test_rows_are_not_added_past_the_knee() -> None:
    plan = edf().plan(0.0, [row(f"s{i}", 0.5) for i in range(6)], FLAT)
    assert len(plan.rows) == 1


def test_rows_released_later_wait_and_say_when() -> None:
    plan = edf().plan(0.0, [row("a", 0.5, release=0.1), row("b", 0.6, release=0.2)], COST)
    assert plan.rows == () and plan.wake_at == 0.1


def test_a_chunk_that_cannot_be_on_time_even_alone_is_dropped() -> None:
    plan = edf().plan(0.0, [row("gone", 0.009), row("fine", 0.5)], COST)
    assert plan.drops == ("gone",) and plan.rows == ("fine",)


def test_a_first_chunk_is_never_dropped() -> None:
    plan = edf().plan(0.0, [row("new", -3.0, droppable=False, rows_left=4)], COST)
    assert plan.drops == () and plan.rows == ("new",)


def test_a_batch_that_would_make_its_most_urgent_row_late_stays_small() -> None:
    rows = [row("urgent", 0.013), *(row(f"s{i}", 0.8) for i in range(5))]
    plan = edf().plan(0.0, rows, COST)
    assert plan.rows[0] == "urgent"
    assert len(plan.rows) * 0.002 + 0.008 <= 0.013


def test_one_chunk_is_given_up_if_a_small_batch_would_cost_more_chunks() -> None:
    rows = [row("urgent", 0.0105), *(row(f"s{i}", 0.05) for i in range(14))]
    plan = edf().plan(0.0, rows, COST)
    assert "urgent" not in plan.rows and len(plan.rows) >= 12


def test_a_further_step_that_comes_too_late_is_left_out() -> None:
    done = row("a", 0.005, steps_done=1, rows_left=1, rows_needed=0)
    plan = edf().plan(0.0, [done], COST)
    assert plan.finish == ("a",) and plan.rows == () and plan.drops == ()


def test_further_steps_give_way_to_what_others_need() -> None:
    done = [row(f"d{i}", 0.3, steps_done=1, rows_left=1, rows_needed=0) for i in range(4)]
    needy = [row(f"n{i}", 0.06, rows_needed=2, rows_left=3) for i in range(12)]
    assert edf().plan(0.0, [*done, *needy], COST).finish
    assert not edf().plan(0.0, done, COST).finish


def test_without_anytime_every_planned_step_runs() -> None:
    done = row("a", 0.005, steps_done=1, rows_left=1, rows_needed=0)
    plan = edf(anytime=False).plan(0.0, [done], COST)
    assert plan.finish == () and plan.drops == ("a",)


def test_jobs_run_when_live_streams_leave_time() -> None:
    assert edf().plan(0.0, [job("j")], COST).rows == ("j",)
    idle = row("live", 0.6, release=0.3)
    assert edf().plan(0.0, [idle, job("j")], COST).rows == ("j",)


def test_jobs_wait_when_a_live_chunk_needs_the_time() -> None:
    soon = row("live", 0.05, release=0.005, rows_left=3)
    plan = edf().plan(0.0, [soon, job("j")], COST)
    assert plan.rows == () and plan.wake_at == 0.005


def test_a_job_rides_along_only_where_a_bigger_batch_pays() -> None:
    assert edf().plan(0.0, [row("live", 0.9), job("j")], COST).rows == ("live", "j")
    assert edf().plan(0.0, [row("live", 0.9), job("j")], FLAT).rows == ("live",)


def test_if_not_all_fit_the_stream_with_credit_waits() -> None:
    for waiting in range(3):
        rows = [row(f"s{i}", 0.0225, order=i, credit=int(i == waiting)) for i in range(3)]
        assert edf().plan(0.0, rows, FLAT).rows[0] != f"s{waiting}"


def test_a_stream_without_credit_gets_a_batch_small_enough_for_it() -> None:
    rows = [row("poor", 0.0125, credit=0), *(row(f"s{i}", 0.05, order=i) for i in range(14))]
    plan = edf().plan(0.0, rows, COST)
    assert plan.rows[0] == "poor" and 0.008 + 0.002 * len(plan.rows) <= 0.0125
    even = [c._replace(credit=0) for c in rows]
    assert "poor" not in edf().plan(0.0, even, COST).rows


def test_the_owner_above_its_share_loses_steps_first() -> None:
    done = {"steps_done": 1, "rows_left": 1, "rows_needed": 0}
    rich = [row(f"r{i}", 0.3, order=i, owner="rich", **done) for i in range(6)]
    poor = [row(f"p{i}", 0.3, order=9 + i, owner="poor", **done) for i in range(2)]
    needy = [row(f"n{i}", order=20 + i, rows_needed=2, owner="third") for i in range(4)]
    for ms in range(200, 0, -1):
        urgent = [c._replace(deadline=ms / 1e3) for c in needy]
        finish = edf().plan(0.0, [*rich, *poor, *urgent], COST).finish
        if finish:
            break
    assert 0 < len(finish) <= 6 and all(s.startswith("r") for s in finish)


def test_jobs_ride_if_a_row_costs_less_there_than_in_a_batch_of_jobs() -> None:
    humped = CostModel({12: 0.048, 13: 0.050, 14: 0.053, 16: 0.059, 1: 0.012, 4: 0.023})
    live = [row(f"s{i}", 0.9, order=i) for i in range(12)]
    jobs = [job(f"j{i}", order=20 + i) for i in range(8)]
    plan = edf().plan(0.0, [*live, *jobs], humped)
    assert len(plan.rows) == 16 and sum(s.startswith("j") for s in plan.rows) == 4
    dear = CostModel({12: 0.048, 13: 0.060, 16: 0.096, 1: 0.012, 4: 0.023})
    assert len(edf().plan(0.0, [*live, *jobs], dear).rows) == 12


def test_jobs_of_different_owners_take_turns() -> None:
    policy = edf()
    many = [job(f"a{i}", order=i, owner="a") for i in range(4)]
    late = [job("b0", order=9, owner="b")]
    taken = Counter(policy.plan(0.0, [*many, *late], FLAT).rows[0][0] for _ in range(10))
    assert taken == {"a": 5, "b": 5}


def test_wide_rows_count_whole() -> None:
    rows = [row("piece", 0.5, width=12), row("a", 0.6), row("wide", 0.7, width=8)]
    assert edf().plan(0.0, rows, COST).rows == ("piece", "a")
    assert edf().plan(0.0, rows[2:], COST).rows == ("wide",)


def test_first_come_first_served_stays_with_its_chunk() -> None:
    policy = FcfsChunk()
    a, b = row("a", arrival=0.1, order=1), row("b", arrival=0.0, order=2)
    assert policy.plan(0.2, [a, b], COST).rows == ("b",)
    sooner = row("c", deadline=0.3, arrival=-1.0)
    assert policy.plan(0.2, [a, b, sooner], COST).rows == ("b",)
    assert policy.plan(0.2, [a, sooner], COST).rows == ("c",)


def test_a_static_batch_takes_nobody_in_before_it_is_done() -> None:
    policy = StaticBatch(max_rows=4)
    first = [row("a"), row("b")]
    assert set(policy.plan(0.0, first, COST).rows) == {"a", "b"}
    assert set(policy.plan(0.0, [*first, row("c")], COST).rows) == {"a", "b"}
    assert set(policy.plan(0.0, [row("b"), row("c")], COST).rows) == {"b"}
    assert policy.plan(0.0, [row("c")], COST).rows == ("c",)


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    rows = []
    for i in range(draw(st.integers(0, 20))):
        done = draw(st.integers(0, 1))
        before = draw(st.integers(0, 1))
        release = draw(st.floats(-0.5, 0.3))
        rows.append(
            row(
                f"s{i}",
                draw(st.floats(-0.2, 0.8)),
                kind="live",
                order=i,
                release=release,
                arrival=release,
                steps_done=done,
                rows_left=2 - done + before * (1 - done),
                rows_needed=(1 - done) * (1 + before),
                droppable=draw(st.booleans()),
                credit=draw(st.integers(-3, 1)),
                owner=draw(st.sampled_from(["", "a", "b"])),
            )
        )
    return rows + [job(f"j{i}", order=50 + i) for i in range(draw(st.integers(0, 3)))]


@settings(max_examples=200, deadline=None)
@given(rows=candidates(), name=st.sampled_from(POLICIES))
def test_any_plan_is_one_that_can_be_run(rows: list[Candidate], name: str) -> None:
    plan = make_policy(EngineSettings(policy=name)).plan(0.0, rows, COST)
    by_name = {c.stream: c for c in rows}
    chosen = [*plan.rows, *plan.finish, *plan.drops]
    assert len(set(chosen)) == len(chosen)
    assert len(plan.rows) <= EngineSettings().max_rows
    assert all(by_name[s].release <= 0.0 for s in (*plan.rows, *plan.finish))
    assert all(by_name[s].optional for s in plan.finish)
    assert all(by_name[s].droppable for s in plan.drops)
    runnable = [c for c in rows if c.kind == "live" and c.release <= 0.0]
    if runnable:
        assert plan.rows or plan.finish or plan.drops
