"""The true optimum of tiny cases: every sequence of batches, by dynamic programming.

Same chunks as bound.py, but whole rows, real batches and no cutting: a batch of rows of different
streams runs for the seconds of its size; a stream's chunks come in order, each after the commit of
the one that was made before it; any chunk may be left out. The answer is what a clairvoyant
scheduler could do at best, and says how loose the linear programme is. Exponential: a few streams
of a few chunks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from onbeat.server.engine.simulate.bound import Window
from onbeat.server.engine.simulate.curves import Curve

MOST_STATES = 150_000
SLACK = 1e-9
Position = tuple[int, int, int]
"""Of one stream: its chunk, the steps done of it, whether a commit must come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    streams: tuple[tuple[Window, ...], ...]
    seconds: tuple[float, ...]
    max_rows: int


def best_chunks(windows: Sequence[Window], device: Curve, max_rows: int) -> int:
    """The largest number of chunks that can be on time. Raises ValueError for cases too large."""
    names = sorted({w.stream for w in windows})
    streams = tuple(
        tuple(sorted((w for w in windows if w.stream == name), key=lambda w: w.due))
        for name in names
    )
    most = min(max_rows, len(streams))
    case = _Case(streams=streams, seconds=tuple(device.table(most)), max_rows=most)
    return _search(case)


def _search(case: _Case) -> int:
    """Forward over states (positions, chunks on time), keeping the earliest time of each."""
    start = tuple((0, 0, 0) for _ in case.streams)
    layers: dict[int, dict[tuple[tuple[Position, ...], int], float]] = {0: {(start, 0): 0.0}}
    best = states = 0
    while layers:
        layer = layers.pop(min(layers))
        for (positions, count), now in layer.items():
            states += 1
            if states > MOST_STATES:
                raise ValueError(f"windows: more than {MOST_STATES} states; allowed: a tiny case")
            best = max(best, count)
            for after, gained, at in _moves(case, positions, now):
                bucket = layers.setdefault(_progress(case, after), {})
                key = (after, count + gained)
                if at < bucket.get(key, float("inf")):
                    bucket[key] = at
    return best


def _progress(case: _Case, positions: tuple[Position, ...]) -> int:
    """Rises with every move."""
    widest = 3 + max(w.steps for stream in case.streams for w in stream)
    return sum(chunk * widest + step + 1 - commit for chunk, step, commit in positions)


def _moves(
    case: _Case, positions: tuple[Position, ...], now: float
) -> Iterator[tuple[tuple[Position, ...], int, float]]:
    """Every batch that could run next, and every chunk that could be left out."""
    choices = [_rows(case, i, position) for i, position in enumerate(positions)]
    for taken in product(*choices):
        rows = sum(taken)
        if 0 < rows <= case.max_rows:
            yield from _batch(case, positions, taken, now, case.seconds[rows])
    for i, (chunk, _, commit) in enumerate(positions):
        if chunk < len(case.streams[i]):
            yield _replaced(positions, i, (chunk + 1, 0, commit)), 0, now


def _rows(case: _Case, stream: int, position: Position) -> tuple[int, ...]:
    return (0, 1) if position[0] < len(case.streams[stream]) else (0,)


def _batch(
    case: _Case,
    positions: tuple[Position, ...],
    taken: tuple[int, ...],
    now: float,
    seconds: float,
) -> Iterator[tuple[tuple[Position, ...], int, float]]:
    """What follows if these streams give a row as soon as all of them can; nothing if a chunk
    would end late: leaving it out is better."""
    begin = now
    for i, (chunk, _, commit) in enumerate(positions):
        if taken[i] and not commit:
            begin = max(begin, case.streams[i][chunk].release)
    end, gained, after = begin + seconds, 0, list(positions)
    for i, (chunk, step, commit) in enumerate(positions):
        if not taken[i]:
            continue
        window = case.streams[i][chunk]
        if commit:
            after[i] = (chunk, step, 0)
        elif step + 1 < window.steps:
            after[i] = (chunk, step + 1, 0)
        elif end > window.due + SLACK:
            return
        else:
            after[i] = (chunk + 1, 0, int(chunk + 1 < len(case.streams[i])))
            gained += 1
    yield tuple(after), gained, end


def _replaced(positions: tuple[Position, ...], index: int, value: Position) -> tuple[Position, ...]:
    return (*positions[:index], value, *positions[index + 1 :])
