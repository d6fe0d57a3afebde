"""The baseline policies, each by what makes it itself; all of them count rows by width."""

from typing import Any, get_args

import pytest

from onbeat.server.cli.bench import PolicyChoice
from onbeat.server.config import PolicyName
from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.policies import make_policy
from onbeat.server.engine.policies.coalesced import Coalesced
from onbeat.server.engine.policies.edf_greedy import EdfGreedy
from onbeat.server.engine.policies.orca import Orca
from onbeat.server.engine.policies.process_per_stream import ProcessPerStream
from onbeat.server.engine.policies.static import StaticBatch
from onbeat.server.engine.policies.time_slice import TimeSlice
from onbeat.server.engine.scheduler import Candidate, filled
from onbeat.server.engine.settings import POLICIES, EngineSettings

COST = CostModel({n: 0.008 + 0.002 * n for n in (1, 2, 4, 8, 16)}, margin=1.1)
BATCHING = ("edf-greedy", "orca", "coalesced", "static")


def row(stream: str, deadline: float = 1.0, **more: Any) -> Candidate:
    values: dict[str, Any] = {
        "kind": "live",
        "work": "step",
        "chunk": 5,
        "order": ord(stream[0]),
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


def test_settings_command_line_and_engine_know_the_same_policies() -> None:
    assert POLICIES == get_args(PolicyName) == tuple(choice.value for choice in PolicyChoice)


def test_widths_fill_the_batch_and_one_row_always_fits() -> None:
    order = [row("a", width=3), row("b", width=2), row("c")]
    assert [c.stream for c in filled(order, 4)] == ["a", "c"]
    assert [c.stream for c in filled(order, 2)] == ["a"]


@pytest.mark.parametrize("name", BATCHING)
def test_a_batch_is_as_large_as_allowed(name: str) -> None:
    policy = make_policy(EngineSettings(policy=name, max_rows=4))
    assert len(policy.plan(0.0, [row(s) for s in "abcdefg"], COST).rows) == 4
    policy = make_policy(EngineSettings(policy=name, max_rows=4))
    assert policy.plan(0.0, [row("a", width=3), row("b", width=2), row("c")], COST).rows == (
        "a",
        "c",
    )


def test_greedy_edf_takes_the_earliest_deadlines_and_drops_the_hopeless() -> None:
    rows = [row("a", 0.9), row("b", 0.3), row("c", 0.015), row("d", 0.5)]
    plan = EdfGreedy(max_rows=2).plan(0.0, rows, COST)
    assert plan.rows == ("b", "d") and plan.drops == ("c",)


def test_greedy_edf_makes_the_urgent_late_by_its_batch() -> None:
    rows = [row("u", 0.013, rows_left=1), *(row(s) for s in "abcdefgh")]
    assert len(EdfGreedy(max_rows=16).plan(0.0, rows, COST).rows) == 9


def test_orca_serves_by_arrival_and_lets_rows_join_at_any_step() -> None:
    policy = Orca(max_rows=2)
    first = [row("a", arrival=0.0), row("b", arrival=-0.2), row("c", deadline=0.1)]
    assert policy.plan(0.2, first, COST).rows == ("b", "a")
    begun = row("b", steps_done=1, arrival=-0.2)
    assert policy.plan(0.3, [begun, row("d", arrival=-0.5)], COST).rows == ("d", "b")


def test_coalesced_chunks_stay_together_with_their_commits() -> None:
    policy = Coalesced(max_rows=4)
    assert policy.plan(0.0, [row("a"), row("b")], COST).rows == ("a", "b")
    done = {"steps_done": 1, "rows_left": 1}
    later = row("c", arrival=-0.5)
    assert policy.plan(0.1, [row("a", **done), row("b", **done), later], COST).rows == ("a", "b")
    commits = [row(s, work="commit", chunk=6, rows_left=3) for s in "ab"]
    assert policy.plan(0.2, [*commits, later], COST).rows == ("a", "b")
    assert policy.plan(0.3, [row("a", chunk=6), row("b", chunk=6), later], COST).rows == (
        "c",
        "a",
        "b",
    )


def test_coalesced_chunks_are_in_step_and_static_ones_need_not_be() -> None:
    rows = [row("a", arrival=-0.3), row("b", rows_left=4), row("c", work="commit", rows_left=3)]
    assert Coalesced(max_rows=4).plan(0.0, rows, COST).rows == ("a",)
    assert StaticBatch(max_rows=4).plan(0.0, rows, COST).rows == ("a", "b", "c")


def test_the_turn_goes_round_at_chunk_boundaries() -> None:
    policy = TimeSlice()
    assert policy.plan(0.0, [row("a"), row("b", 0.3)], COST).rows == ("a",)
    half = row("a", steps_done=1, rows_left=1)
    assert policy.plan(0.1, [half, row("b")], COST).rows == ("a",)
    commit = row("a", work="commit", chunk=6)
    assert policy.plan(0.2, [commit, row("b")], COST).rows == ("a",)
    again = row("a", chunk=6, arrival=-0.9)
    assert policy.plan(0.3, [again, row("b")], COST).rows == ("b",)
    assert policy.plan(0.4, [again, row("b", chunk=6)], COST).rows == ("a",)


def test_processes_share_the_device_row_by_row() -> None:
    policy = ProcessPerStream()
    rows = [row("a"), row("b"), row("c")]
    turns = [policy.plan(0.1 * i, rows, COST).rows for i in range(4)]
    assert turns == [("a",), ("b",), ("c",), ("a",)]


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"edf-s", "edf-greedy"}))
def test_a_chunk_that_has_not_begun_in_time_is_dropped(name: str) -> None:
    plan = make_policy(EngineSettings(policy=name)).plan(0.0, [row("a", -0.1), row("b")], COST)
    assert plan.drops == ("a",) and plan.rows == ("b",)
