"""The plan of a tick, and the plan of the next one made while this one's forward runs.

What rows do to their streams is known before they have run, so the next tick's candidates can be
written down now. A plan made ahead is used only if those are the candidates that the next tick
finds, at about the expected time, and none of them is still to be released; otherwise the tick
plans again. Policies may keep state: a plan ahead is asked of a copy, which takes the policy's
place when its plan is used. No tensors here.
What it is not: a policy, or the running of rows.
"""

import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from onbeat.server.engine.pieces import fit_pieces
from onbeat.server.engine.scheduler import Candidate, Plan, Policy, StepCost
from onbeat.server.engine.streams import Stream

CLOSE = 0.25
"""A plan ahead holds if it comes up this share of a forward early or late."""
SAME_DEADLINE = 1e-3
"""Seconds by which decode costs learnt meanwhile may have moved a deadline."""
_DEADLINE = Candidate._fields.index("deadline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan and the candidates it was made of, pieces narrowed to what fits."""

    plan: Plan
    fitted: Sequence[Candidate]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ahead:
    at: float
    off: float
    candidates: Sequence[Candidate]
    planned: Planned
    policy: Policy


class Planner:
    """`used`, `wasted`: plans ahead that were or were not what the next tick needed."""

    def __init__(self, policy: Policy, cost: StepCost, max_rows: int) -> None:
        self._policy, self._cost, self._max_rows = policy, cost, max_rows
        self._ahead: _Ahead | None = None
        self.used = self.wasted = 0

    def plan(self, now: float, candidates: Sequence[Candidate]) -> Planned:
        """This tick's plan: the one made ahead if it fits, otherwise a new one."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and _holds(ahead, now, candidates):
            self.used += 1
            self._policy = ahead.policy
            return ahead.planned
        self.wasted += ahead is not None
        return self._plan(self._policy, now, candidates)

    def look_ahead(self, at: float, forward: float, candidates: Sequence[Candidate]) -> None:
        """Plans the tick that is expected at `at`, after a forward of `forward` seconds."""
        policy = copy.deepcopy(self._policy)
        self._ahead = _Ahead(
            at=at,
            off=CLOSE * forward,
            candidates=candidates,
            planned=self._plan(policy, at, candidates),
            policy=policy,
        )

    def _plan(self, policy: Policy, now: float, candidates: Sequence[Candidate]) -> Planned:
        fitted = fit_pieces(now, candidates, self._cost, self._max_rows)
        return Planned(plan=policy.plan(now, fitted, self._cost), fitted=fitted)


def _holds(ahead: _Ahead, now: float, candidates: Sequence[Candidate]) -> bool:
    return (
        bool(ahead.planned.plan.rows)
        and abs(now - ahead.at) <= ahead.off
        and not any(now < c.release <= ahead.at for c in candidates)
        and len(candidates) == len(ahead.candidates)
        and all(_same(a, b) for a, b in zip(ahead.candidates, candidates, strict=True))
    )


def _same(a: Candidate, b: Candidate) -> bool:
    if a == b:
        return True
    near = abs(a.deadline - b.deadline) <= SAME_DEADLINE
    rest = a[:_DEADLINE] == b[:_DEADLINE] and a[_DEADLINE + 1 :] == b[_DEADLINE + 1 :]
    return near and rest


def after_rows(
    streams: Sequence[Stream], steps: Sequence[Stream], commits: Sequence[Stream]
) -> list[Stream] | None:
    """The streams as they will be when these rows have run: copies that share all but their books.

    None if that cannot be said: a control waits to be applied, or a long window is committed.
    """
    if any(s.pending is not None for s in streams) or any(s.piece > 1 for s in commits):
        return None
    stepping, committing = {s.id for s in steps}, {s.id for s in commits}
    return [
        _stepped(s) if s.id in stepping else _committed(s) if s.id in committing else s
        for s in streams
    ]


def _committed(stream: Stream) -> Stream:
    after = copy.copy(stream)
    after.uncommitted = deque(islice(stream.uncommitted, 1, None))
    return after


def _stepped(stream: Stream) -> Stream:
    state = stream.state
    assert state is not None, f"{stream.id}: chunk {stream.chunk} has not begun"
    after = copy.copy(stream)
    after.state = replace(state, step=state.step + 1)
    if after.state.done:
        after.ladder = copy.copy(stream.ladder)
        after.ladder.ended()
        after.uncommitted = deque([*stream.uncommitted, after.state])
        after.fresh, after.drops_in_a_row = False, 0
        after.state, after.chunk = None, stream.chunk + 1
        after.in_decode += 1
    return after
