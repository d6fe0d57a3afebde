"""How much of a window's commits, or of the prompts to be filled, one tick takes: a piece.

A restored, switched or joining stream has work that no neighbour expects. It is cut so that a tick
with a neighbour under a deadline takes one piece of one stream, of as many rows as the neighbours'
slack has time for, and at least one. Plain numbers. What it is not: the order of rows (policies).
"""

from collections.abc import Sequence

from onbeat.server.engine.scheduler import Candidate, StepCost

PIECE_ROWS = 4
"""Most chunks of one stream that are committed in one forward beside streams with deadlines."""
SHARE = 0.25
"""Of the tightest neighbour's slack, what a piece may take."""


def fit_pieces(
    now: float, candidates: Sequence[Candidate], cost: StepCost, max_rows: int
) -> list[Candidate]:
    """The candidates of this tick: pieces narrowed to what fits, others left for later ticks. One
    that may not run yet takes no room from those that may."""
    due = {c.stream for c in candidates if c.is_piece and c.release <= now}
    pieces = sorted((c for c in candidates if c.stream in due), key=_urgency)
    if not pieces:
        return list(candidates)
    beside = [c for c in candidates if not c.is_piece and c.kind == "live" and c.droppable]
    room = piece_rows(now, beside, cost, max_rows) if beside else max_rows
    fitted: dict[str, Candidate] = {}
    for c in pieces:
        if room < 1:
            break
        fitted[c.stream] = narrowed(c, room)
        room -= fitted[c.stream].width
        if beside:
            break
    kept = (fitted.get(c.stream) if c.stream in due else c for c in candidates)
    return [c for c in kept if c is not None]


def piece_rows(now: float, beside: Sequence[Candidate], cost: StepCost, max_rows: int) -> int:
    """Rows that a tick has time for on top of the neighbours' own: 1 to PIECE_ROWS."""
    batch = min(len(beside), max_rows)
    forward = cost.predict(batch)
    slack = min(c.deadline - now - c.rows_left * forward for c in beside)
    for rows in range(min(PIECE_ROWS, max_rows), 1, -1):
        if cost.predict(batch + rows) - forward <= SHARE * slack:
            return rows
    return 1


def narrowed(c: Candidate, rows: int) -> Candidate:
    """`c` with at most `rows` rows; fewer a forward are more forwards."""
    if c.width <= rows:
        return c
    more = forwards(c.backlog, rows) - forwards(c.backlog, c.width)
    return c._replace(width=rows, rows_left=c.rows_left + more, rows_needed=c.rows_needed + more)


def forwards(backlog: int, rows: int) -> int:
    """How many commits of up to `rows` chunks `backlog` chunks are."""
    return -(-backlog // rows)


def _urgency(c: Candidate) -> tuple[float, int]:
    return c.deadline, c.order
