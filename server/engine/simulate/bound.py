"""An upper bound on what any scheduler could do with the same chunks: a linear programme.

Choose shares x of the chunks, as much as possible, so that for every interval [s, e] the work of
the chunks released at s or later and due at e or sooner, at the least seconds per row of any batch,
fits into e - s. It lets work be cut, batches be full without waiting, and the future be known:
whoever gets a share g of it gets at least a share g of the best possible. Rows of a chunk: its
steps and one commit, but of a stream's chunks in an interval one commit may lie outside (it must
only be done before the stream's next chunk). A batch has at most one row of each stream. Chunks
that do not fit their window even alone are left out. Solved by cutting planes with scipy's HiGHS:
intervals are added while one is overfull; stopping early, and instants moved outwards to a grid,
leave it a bound.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onbeat.server.engine.simulate.curves import Curve

Array = npt.NDArray[np.float64]
ROUNDS = 40
POINTS = 240
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One chunk: its steps may run from `release` on and must be done at `due` (seconds)."""

    stream: str
    release: float
    due: float
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """Chunks on a grid of instants. `at`: the instants; `chunks`: rows of a stream's index, the
    indices of release and due instant, and steps; `row`: least seconds per row."""

    at: Array
    chunks: npt.NDArray[np.int64]
    row: float


def most_chunks(windows: Sequence[Window], device: Curve, max_rows: int) -> float:
    """Upper bound on the chunks that can be on time together."""
    problem = _problem(windows, device, max_rows)
    if problem is None:
        return 0.0
    groups, counts = np.unique(problem.chunks[:, 1:], axis=0, return_counts=True)
    release, due, steps = groups.T
    size, row = len(problem.at), problem.row
    inside = row * _streams_inside(problem)

    def load(x: Array) -> Array:
        """Work in each interval: the steps alone, or with all commits but one of each stream."""
        alone = row * _inside(size, release, due, steps * x)
        return np.maximum(alone, row * _inside(size, release, due, (steps + 1.0) * x) - inside)

    def cuts(s: int, e: int) -> Iterator[tuple[Array, float]]:
        within = ((release >= s) & (due <= e)).astype(float)
        yield row * steps * within, 0.0
        yield row * (steps + 1.0) * within, float(inside[s, e])

    return _maximise(problem.at, counts.astype(float), load, cuts)


def most_streams(windows: Sequence[Window], device: Curve, max_rows: int) -> int:
    """Upper bound on the streams that can have all their chunks on time together."""
    names = sorted({w.stream for w in windows})
    problem = _problem(windows, device, max_rows)
    if problem is None or len(problem.chunks) < len(windows):
        kept = _feasible(windows, device)
        return most_streams(kept, device, max_rows) if kept else 0
    of_stream = [problem.chunks[problem.chunks[:, 0] == i] for i in range(len(names))]
    size = len(problem.at)
    rows = np.stack([_inside(size, c[:, 1], c[:, 2], c[:, 3] + 1.0) for c in of_stream])
    demand = problem.row * np.maximum(0.0, rows - 1.0)

    def load(z: Array) -> Array:
        return np.asarray(np.tensordot(z, demand, axes=1))

    def cuts(s: int, e: int) -> Iterator[tuple[Array, float]]:
        yield demand[:, s, e], 0.0

    return int(_maximise(problem.at, np.ones(len(names)), load, cuts) + TOLERANCE)


def _feasible(windows: Sequence[Window], device: Curve) -> list[Window]:
    """The chunks of streams all of whose chunks fit their window alone."""
    alone = device.at(1)
    bad = {w.stream for w in windows if w.steps * alone > w.due - w.release + TOLERANCE}
    return [w for w in windows if w.stream not in bad]


def _problem(windows: Sequence[Window], device: Curve, max_rows: int) -> _Problem | None:
    alone = device.at(1)
    fits = [w for w in windows if w.steps * alone <= w.due - w.release + TOLERANCE]
    if not fits:
        return None
    at = np.unique(np.round([t for w in fits for t in (w.release, w.due)], 9))
    if len(at) > POINTS:
        at = np.linspace(at[0], at[-1], POINTS)
    names = {name: i for i, name in enumerate(sorted({w.stream for w in windows}))}
    release = np.searchsorted(at, [w.release + 2e-9 for w in fits], side="right") - 1
    due = np.searchsorted(at, [w.due - 2e-9 for w in fits], side="left")
    return _Problem(
        at=at,
        chunks=np.column_stack(
            [[names[w.stream] for w in fits], release, due, [w.steps for w in fits]]
        ),
        row=device.best_row_seconds(min(max_rows, len(names))),
    )


def _inside(
    size: int, release: npt.NDArray[np.int64], due: npt.NDArray[np.int64], amount: Array
) -> Array:
    """[s, e]: the amounts of chunks released at s or later and due at e or sooner."""
    table = np.zeros((size, size))
    np.add.at(table, (release, due), amount)
    return np.asarray(table[::-1].cumsum(axis=0)[::-1].cumsum(axis=1))


def _streams_inside(problem: _Problem) -> Array:
    """[s, e]: how many streams have a chunk inside the interval."""
    size = len(problem.at)
    total = np.zeros((size, size))
    for i in np.unique(problem.chunks[:, 0]):
        mine = problem.chunks[problem.chunks[:, 0] == i]
        total += _inside(size, mine[:, 1], mine[:, 2], np.ones(len(mine))) > 0
    return total


def _maximise(
    at: Array,
    most: Array,
    load: Callable[[Array], Array],
    cuts: Callable[[int, int], Iterator[tuple[Array, float]]],
) -> float:
    """Largest sum of x, 0 <= x <= `most`, with `load(x)[s, e]` at most at[e] - at[s]. `cuts`
    gives the rows of an interval, each with what may be added to its right side."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    room = at[None, :] - at[:, None]
    rows: list[Array] = []
    limits: list[float] = []
    x, best = most, float(most.sum())
    seen: set[tuple[int, int]] = set()
    for _ in range(ROUNDS):
        new = _overfull(np.triu(load(x) - room, 1)) - seen
        if not new:
            break
        seen |= new
        for s, e in sorted(new):
            for row, extra in cuts(s, e):
                rows.append(row)
                limits.append(float(room[s, e]) + extra)
        answer = linprog(
            -np.ones(len(most)),
            A_ub=csr_array(np.stack(rows)),
            b_ub=limits,
            bounds=np.column_stack([np.zeros(len(most)), most]),
            method="highs",
        )
        assert answer.status == 0, answer.message
        x, best = answer.x, float(-answer.fun)
    return best


def _overfull(over: Array) -> set[tuple[int, int]]:
    """The worst interval that begins at each instant, and the worst that ends there."""
    ends, begins = over.argmax(axis=1), over.argmax(axis=0)
    worst = {(s, int(e)) for s, e in enumerate(ends) if over[s, e] > TOLERANCE}
    return worst | {(int(s), e) for e, s in enumerate(begins) if over[s, e] > TOLERANCE}
