"""Whose job is next: keys take turns by the frames they were given, a key's own jobs go by priority
and then by age. Statements inside a transaction of the store; no leases, no states.

Start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996): a key that is served starts no earlier
than the turn stands, and its next start is later by what it was given. So a key that was away gets
its share from now on, and nothing for the time before.
"""

from collections.abc import Iterable, Mapping, Sequence
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


def positions(connection: sa.Connection, rows: Sequence[tuple[int, str, int]]) -> list[int]:
    """Places in the queue of queued jobs, each (number, owner, priority): 1 is next. An estimate if
    several keys wait: one job of each in turn."""
    count = sa.func.count().label("waiting")
    query = sa.select(jobs.c.owner, count).where(jobs.c.state == "queued").group_by(jobs.c.owner)
    waiting = {row.owner: int(row.waiting) for row in connection.execute(query)}
    served = turns(connection, waiting)
    return [place(_rank(connection, row), row[1], waiting, served) for row in rows]


def place(rank: int, owner: str, waiting: Mapping[str, int], served: Mapping[str, float]) -> int:
    """Of a job that is the `rank`-th of its owner's."""
    turn = served.get(TURN, 0.0)
    start = max(served.get(owner, turn), turn)
    others = ((o, n) for o, n in waiting.items() if o != owner)
    return rank + sum(min(n, rank - (served.get(o, turn) > start)) for o, n in others)


def _rank(connection: sa.Connection, row: tuple[int, str, int]) -> int:
    number, owner, priority = row
    before = sa.or_(
        jobs.c.priority > priority,
        sa.and_(jobs.c.priority == priority, jobs.c.number <= number),
    )
    mine = sa.select(sa.func.count()).where(jobs.c.state == "queued", jobs.c.owner == owner, before)
    return int(connection.execute(mine).scalar_one())


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
