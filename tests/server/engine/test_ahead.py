"""A plan made ahead is the plan that would have been made, or it is not used."""

from collections.abc import Sequence

import pytest

from onbeat.server.engine.ahead import Planner
from onbeat.server.engine.cost import CostModel
from onbeat.server.engine.messages import ChunkDropped, ChunkReady, ControlStream, OpenStream
from onbeat.server.engine.scheduler import Candidate, Plan, StepCost
from onbeat.server.engine.simulate.curves import Curve
from onbeat.server.engine.simulate.run import simulated_settings
from onbeat.server.engine.simulate.world import Machine, World, simulated_spec
from onbeat.server.vocabulary import StreamKind

COST = CostModel({1: 0.01, 2: 0.012, 4: 0.02, 8: 0.036, 16: 0.07})
CURVE = Curve(seconds=COST.table())


def world(ahead: str, policy: str, noise: float = 0.0) -> World:
    """Live streams that join, change their prompt and pause, and two jobs."""
    decode = Curve(seconds={1: 0.001})
    machine = Machine(compute=CURVE, decode=decode, noise=noise)
    settings = simulated_settings(policy=policy, plan_ahead=ahead, admission=False)
    made = World(machine, simulated_spec(), settings, seed=1)
    for i in range(14):
        kind: StreamKind = "job" if i in (5, 9) else "live"
        stream = OpenStream(stream_id=f"s{i}", kind=kind, prompt=f"p{i % 3}", seed=i)
        made.at(0.31 * i, stream)
    made.at(3.3, ControlStream(stream_id="s1", revision=1, prompt="other"))
    made.at(4.1, ControlStream(stream_id="s2", revision=1, paused=True))
    made.at(5.2, ControlStream(stream_id="s2", revision=2, paused=False))
    made.run(12.0)
    return made


def schedule(made: World) -> list[tuple[object, ...]]:
    """When each chunk was ready, or dropped."""
    out: list[tuple[object, ...]] = []
    for event in made.events:
        if isinstance(event, ChunkReady):
            out.append((event.stream_id, event.chunk, event.steps, round(event.ready_at, 9)))
        elif isinstance(event, ChunkDropped):
            out.append((event.stream_id, event.chunk, event.cause))
    return out


@pytest.mark.parametrize("policy", ["edf-s", "orca", "static"])
def test_schedules_are_the_same_with_and_without(policy: str) -> None:
    plain, ahead = world("off", policy), world("on", policy)
    assert [e.batches for e in plain.executors] == [e.batches for e in ahead.executors]
    assert schedule(plain) == schedule(ahead)
    planner = ahead.engine.planner
    assert plain.engine.planner.used == 0
    assert planner.used > 100 and planner.used > 2 * planner.wasted, vars(planner)


def test_forwards_off_their_time_are_planned_again() -> None:
    made = world("on", "edf-s", noise=0.6)
    assert made.engine.planner.wasted > 50
    made.close()


def row(stream: str, deadline: float = 1.0) -> Candidate:
    return Candidate(
        stream=stream,
        kind="live",
        work="step",
        chunk=0,
        order=0,
        release=0.0,
        arrival=0.0,
        deadline=deadline,
        period=1.0,
        rows_left=1,
        rows_needed=1,
        steps_done=0,
        chunk_rows=3,
        droppable=True,
    )


class Counting:
    """Plans every candidate and counts its plans; the count is its state."""

    def __init__(self) -> None:
        self.plans = 0

    def plan(self, now: float, candidates: Sequence[Candidate], cost: StepCost) -> Plan:
        self.plans += 1
        return Plan(rows=tuple(c.stream for c in candidates), wake_at=float(self.plans))


@pytest.mark.parametrize(
    ("now", "found", "used"),
    [
        (0.10, [row("a"), row("b")], True),
        (0.11, [row("a", 1.0004), row("b")], True),
        (0.14, [row("a"), row("b")], False),
        (0.10, [row("a", 1.01), row("b")], False),
        (0.10, [row("a")], False),
        (0.10, [row("a"), row("c")], False),
    ],
)
def test_only_what_was_foreseen_is_used(now: float, found: list[Candidate], used: bool) -> None:
    planner = Planner(Counting(), COST, max_rows=16)
    planner.look_ahead(0.10, 0.1, [row("a"), row("b")])
    planned = planner.plan(now, found)
    assert (planner.used, planner.wasted) == (int(used), int(not used))
    assert planned.plan.rows == tuple(c.stream for c in found)
    assert planned.plan.wake_at == 1.0, "a plan thrown away leaves no trace in the policy"
    assert planner.plan(now, found).plan.wake_at == 2.0
