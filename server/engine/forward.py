"""The plan run forward: periodic streams through the compute lane, batch by batch, on paper.

Earliest deadline first in batches of the best rate, at given costs: whether every chunk would be on
time, and how much room is left. After DeepRT (Yang et al. 2021, arXiv 2105.01803), whose admission
simulates EDF over batches of frames too. What it is not: the policy (policies/), which also bends
quality, or the simulator, which runs the whole engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from onbeat.server.engine.cost import GAIN

HYPER_PERIODS = 2
MAX_PHASES = 12
ROW_BUDGET = 4000
"""Rows simulated for one decision, over all phases tried: bounds its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a live stream needs: `rows` forwards a chunk, every `period` seconds, at `phase` of it.
    `window`: seconds from a chunk's release to its playout; in the plan run forward, to the end of
    its last step."""

    rows: int
    period: float
    window: float
    phase: float = 0.0
    encode: float = 0.0
    """Seconds of the decode lane that its input takes for each chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What became of a plan. `slack`: seconds that the tightest chunk was early, below 0 if late;
    `busy`: seconds of the lane."""

    phase: float
    slack: float
    busy: float


class Batches:
    """Seconds of a batch by rows, and the batch that is taken when so many rows are ready: the
    smallest with the best rate within 2 %, or all if few would be left over, as edf-s does.
    `seconds`: of batches of 1, 2, ... rows."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self.seconds = times = [0.0, *seconds]
        self.taken = [0]
        knee = 1
        for rows in range(1, len(times)):
            if rows * times[knee] > GAIN * knee * times[rows]:
                knee = rows
            whole = rows <= 2 * knee and GAIN * times[rows] < times[knee] + times[rows - knee]
            self.taken.append(rows if whole and rows > knee else knee)


def run_forward(streams: Sequence[Demand], batches: Batches, worst: float) -> tuple[float, float]:
    """Slack and busy seconds over two chunks of each stream; stops once slack is below `worst`.

    As in the engine's steady state, a chunk's commit (its last row here) may run as soon as the
    chunk is done and is not awaited by it, while the next chunk's steps wait for their release.
    """
    seconds, taken, most = batches.seconds, batches.taken, len(batches.seconds) - 1
    waiting = [(s.phase, i) for i, s in enumerate(streams)]
    heapify(waiting)
    ready: list[tuple[float, int]] = []
    left = [s.rows * HYPER_PERIODS for s in streams]
    dues = [s.phase + s.window for s in streams]
    now, busy, slack = 0.0, 0.0, float("inf")
    while waiting or ready:
        while waiting and waiting[0][0] <= now:
            i = heappop(waiting)[1]
            heappush(ready, (dues[i], i))
        if not ready:
            now = waiting[0][0]
            continue
        size = taken[min(len(ready), most)]
        chosen = [heappop(ready)[1] for _ in range(size)]
        now += seconds[size]
        busy += seconds[size]
        for i in chosen:
            s = streams[i]
            left[i] -= 1
            ended = left[i] % s.rows
            if ended == 1 or s.rows == 1:
                slack = min(slack, dues[i] - now)
                dues[i] += s.period
            if ended == 0 and left[i]:
                heappush(waiting, (dues[i] - s.window, i))
            elif left[i]:
                heappush(ready, (dues[i], i))
        if slack < worst:
            break
    return slack, busy


def phases_to_try(live: Sequence[Demand], most: int) -> list[float]:
    """Instants that streams share already, the most shared first, and the middle of the largest
    gap between instants."""
    if not live:
        return [0.0]
    counts: dict[float, int] = {}
    for s in live:
        counts[s.phase] = counts.get(s.phase, 0) + 1
    instants = sorted(counts)
    period = live[0].period
    ends = [*instants[1:], instants[0] + period]
    gap, start = max((end - at, -at) for at, end in zip(instants, ends, strict=True))
    middle = (gap / 2 - start) % period
    shared = sorted(instants, key=lambda at: (-counts[at], at))
    return [*shared[: most - 1], middle]


def best_phase(live: Sequence[Demand], new: Demand, batches: Batches) -> Outlook:
    """The phase for a new stream: of those that leave the lane the most idle time, within 2 %, the
    one at which the tightest chunk has the most slack; of phases at which chunks would be late, the
    one that loses least.

    Where batching pays, sharing an instant saves the lane's time; where it does not, all phases
    cost the same, and the slack decides for one of its own.
    """
    total = HYPER_PERIODS * (new.rows + sum(s.rows for s in live))
    most = min(MAX_PHASES, max(2, ROW_BUDGET // total))
    tried: list[Outlook] = []
    for phase in phases_to_try(live, most):
        worst = min(0.0, max((o.slack for o in tried), default=-float("inf")))
        slack, busy = run_forward([*live, replace(new, phase=phase)], batches, worst)
        tried.append(Outlook(phase=phase, slack=slack, busy=busy))
    fitting = [o for o in tried if o.slack >= 0.0]
    if not fitting:
        return max(tried, key=lambda o: o.slack)
    least = GAIN * min(o.busy for o in fitting)
    return max((o for o in fitting if o.busy <= least), key=lambda o: o.slack)
