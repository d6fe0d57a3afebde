"""Whose job is next: keys take turns by the frames they were given, a key's own jobs go by priority
and then by age. Statements inside a transaction of the store; no leases, no states.

Start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996): a key that is served starts no earlier
than the turn stands, and its next start is later by what it was given. So a key that was away gets
its share from now on, and nothing for the time before.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from onbeat.server.jobs.table import job_turns, jobs

LONGEST_DELAY = 60.0
"""Seconds that a job is put off at most. One that seems to be put off for longer was put off by a
clock that has been set back since, and may start."""
TURN = "(turn)"
"""The row of `job_turns` that says how far the turn stands."""


def may_start(now: float) -> sa.ColumnElement[bool]:
    """Queued jobs that are not put off."""
    due = sa.or_(jobs.c.not_before <= now, jobs.c.not_before > now + LONGEST_DELAY)
    return sa.and_(jobs.c.state == "queued", due)


def next_job(connection: sa.Connection, now: float) -> sa.Row[Any] | None:
    """The row that is next, and its key's turn is noted; None if no job may start."""
    oldest = sa.func.min(jobs.c.number).label("oldest")
    query = sa.select(jobs.c.owner, oldest).where(may_start(now)).group_by(jobs.c.owner)
    waiting = {row.owner: int(row.oldest) for row in connection.execute(query)}
    if not waiting:
        return None
    served = turns(connection, waiting)
    turn = served.get(TURN, 0.0)
    start, _, owner = min((max(served.get(o, turn), turn), n, o) for o, n in waiting.items())
    row = connection.execute(first_of(owner, now)).one()
    _note(connection, {TURN: start, owner: start + row.cost})
    return row


def first_of(owner: str, now: float) -> sa.Select[Any]:
    """The row that is next among those of one key."""
    mine = sa.select(jobs).where(may_start(now), jobs.c.owner == owner)
    return mine.order_by(jobs.c.priority.desc(), jobs.c.number).limit(1)


def positions(connection: sa.Connection, numbers: Collection[int]) -> dict[int, int]:
    """By number: places of those that are queued; 1 is next, and no two have the same.

    While it waits a job's start stands: no other that starts before it moves the turn beyond it. So
    it is its key's next start and the frames of those of its key that go first, and the places are
    the order of claims, as long as no job comes, goes or is put off.
    """
    own: dict[str, Any] = {
        "partition_by": jobs.c.owner,
        "order_by": (jobs.c.priority.desc(), jobs.c.number),
    }
    before = sa.func.sum(jobs.c.cost).over(**own, rows=(None, 0)) - jobs.c.cost
    oldest = sa.func.min(jobs.c.number).over(**own, rows=(0, None))
    columns = (jobs.c.number, jobs.c.owner, before.label("before"), oldest.label("oldest"))
    waiting = sa.select(*columns).where(jobs.c.state == "queued").subquery()
    turn = sa.select(job_turns.c.served).where(job_turns.c.owner == TURN).scalar_subquery()
    stands = sa.func.coalesce(turn, 0.0)
    served = sa.case((job_turns.c.served > stands, job_turns.c.served), else_=stands)
    order = (served + waiting.c.before, waiting.c.oldest)
    place = sa.func.row_number().over(order_by=order).label("place")
    joined = waiting.outerjoin(job_turns, job_turns.c.owner == waiting.c.owner)
    ranked = sa.select(waiting.c.number, place).select_from(joined).subquery()
    found = connection.execute(sa.select(ranked).where(ranked.c.number.in_(numbers)))
    return {row.number: row.place for row in found}


def turns(connection: sa.Connection, owners: Iterable[str]) -> dict[str, float]:
    """How far the turns of these stand, and TURN's."""
    return _served(connection, [*owners, TURN])


def _served(connection: sa.Connection, owners: Sequence[str]) -> dict[str, float]:
    query = sa.select(job_turns).where(job_turns.c.owner.in_(owners))
    return {row.owner: row.served for row in connection.execute(query)}


def _note(connection: sa.Connection, served: Mapping[str, float]) -> None:
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    new = insert(job_turns).values([{"owner": o, "served": s} for o, s in served.items()])
    change = new.on_conflict_do_update(
        index_elements=["owner"], set_={"served": new.excluded.served}
    )
    connection.execute(change)
