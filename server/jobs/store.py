"""The durable list of jobs: added, claimed under a lease, moved on under a fence, found again.

Every change is one transaction, with the event that tells of it. A row exists before any work on it
starts; whoever lost its lease can change nothing any more, as each claim raises the fence. Several
servers may share one Postgres. Thread-safe. Wall-clock instants are for people to read: who is
next, and whose lease is over, does not depend on them (queueing.py, leases.py).
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from onbeat.server.jobs import beside as beside_jobs
from onbeat.server.jobs import events, queueing
from onbeat.server.jobs.database import Database, open_database
from onbeat.server.jobs.events import EventKind, JobEvent
from onbeat.server.jobs.job import ENDED, MAX_ATTEMPTS, MAX_LOSSES, EndState, Job, JobRequest
from onbeat.server.jobs.leases import LeaseWatch
from onbeat.server.jobs.room import Room
from onbeat.server.jobs.rows import job_of, new_job, new_row, text_of, waited_of, waits
from onbeat.server.jobs.standing import row_for, row_of, standing
from onbeat.server.jobs.steady import Instant, now
from onbeat.server.jobs.table import jobs
from onbeat.server.jobs.together import Together
from onbeat.server.vocabulary import new_id

LEASE_SECONDS = 30.0
WORKER_LOST = "worker_lost"
NEW_JOB = sa.insert(jobs)
CLAIM_LOCK = 0x6F6E62656175
"""Of Postgres' advisory locks: claims of all servers go one after the other, so that turns hold."""

Beside = Callable[[sa.Connection, Job], None]
"""What is written in the transaction that adds a job."""


class LeaseLost(Exception):
    """The job was cancelled, deleted or given to somebody else; stop working on it."""


class JobStore:
    """Jobs in one database: a SQLite file, or Postgres at a URL.

    `clock` gives Unix seconds, `monotonic` seconds that never go back.
    """

    def __init__(
        self,
        where: Path | str,
        clock: Callable[[], float] = time.time,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        steady: Callable[[], Instant] = now,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """Raises DatabaseError, sqlalchemy.exc.OperationalError."""
        self.database: Database = open_database(where)
        self.lease_seconds = lease_seconds
        self._clock, self._steady = clock, steady
        self._together = Together(self.database)
        self._standing = standing(self.database)
        self._watch = LeaseWatch(lease_seconds, monotonic)

    def close(self) -> None:
        self.database.close()

    # ---- asked for by clients ------------------------------------------------------------------

    def add(
        self,
        request: JobRequest,
        beside: Iterable[Beside] = (),
        *,
        room: Room | None = None,
    ) -> Job:
        """A new queued job; on the disk when this returns, with what `beside` wrote.

        Raises QueueFull or ShareFull if there is no `room`, and what `beside` raises.
        """

        def work(connection: sa.Connection) -> Job:
            if room is not None:
                room.check(*self._standing.waiting(connection, request.owner))
            row = new_row(new_id("video"), request, self._clock(), self._steady())
            made = connection.execute(NEW_JOB, row).inserted_primary_key
            assert made is not None
            job = new_job(made[0], row, request)
            events.note(connection, job.number, 1, job.created_at, "queued", {})
            for write in beside:
                write(connection, job)
            self._standing.note(row_for(job.number, request), queued=True)
            return job

        return self._together.run(work)

    def get(self, job_id: str) -> Job | None:
        rows = self._read(sa.select(jobs).where(jobs.c.id == job_id))
        return job_of(rows[0]) if rows else None

    def page(self, *, after: str | None, limit: int, newest_first: bool) -> list[Job]:
        """Up to `limit` jobs behind the one with id `after`. Raises KeyError if that is unknown."""
        query = sa.select(jobs).limit(limit)
        if after is not None:
            last = self.get(after)
            if last is None:
                raise KeyError(after)
            column = jobs.c.number
            query = query.where(column < last.number if newest_first else column > last.number)
        order = jobs.c.number.desc() if newest_first else jobs.c.number.asc()
        return [job_of(row) for row in self._read(query.order_by(order))]

    def cancel(self, job_id: str) -> Job | None:
        """Ends a job that has not ended; the job as it is now, None if unknown."""
        mine = (jobs.c.id == job_id, jobs.c.state.not_in(ENDED))
        change = {"fence": jobs.c.fence + 1, "lease_owner": None}
        with self.database.writing() as connection:
            self._finish(connection, mine, "cancelled", change, {})
        return self.get(job_id)

    def delete(self, job_id: str) -> bool:
        """Forgets a job, whatever its state; False if unknown."""
        gone = sa.delete(jobs).where(jobs.c.id == job_id).returning(*jobs.c)
        with self.database.writing() as connection:
            row = connection.execute(gone).one_or_none()
            if row is not None:
                events.forget(connection, row.number)
                beside_jobs.forget(connection, job_of(row))
                self._standing.note(row_of(row), queued=False)
        return row is not None

    def position(self, job: Job) -> int | None:
        """1 for the next to start, and no other has it; None unless queued."""
        return self.positions([job])[job.id]

    def positions(self, found: Sequence[Job]) -> dict[str, int | None]:
        """`position` of each, by id."""
        rows = [row_for(job.number, job.request) for job in found if job.state == "queued"]
        places = self._standing.places(rows) if rows else {}
        return {job.id: places.get(job.number) for job in found}

    def counts(self) -> dict[str, int]:
        """Jobs by state; states without jobs are 0."""
        number = sa.func.count().label("number")
        query = sa.select(jobs.c.state, number).group_by(jobs.c.state)
        found = {row.state: int(row.number) for row in self._read(query)}
        return {state: found.get(state, 0) for state in ("queued", "in_progress", *ENDED)}

    def waiting_by_priority(self) -> dict[int, int]:
        number = sa.func.count().label("number")
        query = sa.select(jobs.c.priority, number).where(jobs.c.state == "queued")
        return {row.priority: row.number for row in self._read(query.group_by(jobs.c.priority))}

    def known_ids(self, *, ended: bool = True) -> set[str]:
        """Of all jobs, or of those that have not ended."""
        query = sa.select(jobs.c.id)
        return {row[0] for row in self._read(query if ended else query.where(_open()))}

    def events(self, job: Job, after: int = 0) -> list[JobEvent]:
        """What happened to it behind the event with that number, oldest first."""
        with self.database.reading() as connection:
            return events.read(connection, job.number, after)

    # ---- results -------------------------------------------------------------------------------

    def results(self, *, expiring_before: float | None = None, limit: int = 100) -> list[Job]:
        """Completed jobs whose files are there, oldest first; those that expire before an instant
        only, if one is given."""
        query = sa.select(jobs).where(jobs.c.state == "completed", sa.not_(jobs.c.expired))
        if expiring_before is not None:
            query = query.where(jobs.c.expires_at < expiring_before)
        query = query.order_by(jobs.c.completed_at, jobs.c.number).limit(limit)
        return [job_of(row) for row in self._read(query)]

    def forget_result(self, job_id: str) -> bool:
        """Writes down that the files go; call it before they do. False if they are gone already."""
        mine = (jobs.c.id == job_id, jobs.c.state == "completed", sa.not_(jobs.c.expired))
        with self.database.writing() as connection:
            return self._change(connection, mine, {"expired": True}, "expired", {}) is not None

    # ---- asked for by the worker ---------------------------------------------------------------

    def claim(self, owner: str) -> Job | None:
        """The job that is next, `owner`'s from now on while it is renewed; None if none may start.

        Its attempt counts as a strike until `renew` tells of a chunk more.
        """
        wall = self._clock()
        with self.database.writing() as connection:
            if self.database.is_shared:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(CLAIM_LOCK)))
            row = queueing.next_job(connection, wall)
            if row is None:
                return None
            change = {
                "state": "in_progress",
                "attempt": row.attempt + 1,
                "strikes": row.strikes + 1,
                "fence": row.fence + 1,
                "lease_owner": owner,
                "started_at": max(wall, row.created_at),
            }
            mine = (jobs.c.number == row.number, jobs.c.state == "queued")
            taken = self._change(
                connection, mine, change, "started", {"attempt": change["attempt"]}
            )
        waited = waited_of(row, self._steady(), wall)
        return None if taken is None else replace(job_of(taken), waited=waited)

    def renew(self, job: Job, **values: Any) -> None:
        """A heartbeat. Raises LeaseLost."""
        with self.database.writing() as connection:
            change = jobs.update().where(*_held(job)).values(beat=jobs.c.beat + 1, **values)
            if connection.execute(change).rowcount != 1:
                raise LeaseLost(job.id)

    def advance(self, job: Job, *, checkpoint: int, progress: float, detail: dict[str, Any]) -> Job:
        """So many chunks need not be made again; a heartbeat too. Raises LeaseLost.

        What `detail` tells goes to those who follow the job.
        """
        change: dict[str, Any] = {"beat": jobs.c.beat + 1, "progress": progress}
        if checkpoint > job.checkpoint:
            change |= {"checkpoint": checkpoint, "strikes": 0}
        told = {"progress": round(progress, 4), "checkpoint": checkpoint} | detail
        with self.database.writing() as connection:
            row = self._change(connection, _held(job), change, "progress", told)
        if row is None:
            raise LeaseLost(job.id)
        return job_of(row)

    def start_over(self, job: Job, reason: str, lost: int) -> None:
        """None of the `lost` chunks that were there can be used. Raises LeaseLost."""
        change = {"checkpoint": 0, "progress": 0.0}
        told = {"reason": reason, "lost_chunks": lost}
        with self.database.writing() as connection:
            if self._change(connection, _held(job), change, "restarted", told) is None:
                raise LeaseLost(job.id)

    def note_recognised(self, job: Job, words: Sequence[str]) -> None:
        """Raises LeaseLost."""
        self.renew(job, recognised_json=msgspec.json.encode(list(words)))

    def complete(
        self,
        job: Job,
        peak_memory_mb: float | None,
        *,
        run_seconds: float | None = None,
        stages: Mapping[str, float] | None = None,
        result: Mapping[str, Any] | None = None,
        expires_at: float | None = None,
    ) -> Job:
        """The result is stored; the job as it is now. Raises LeaseLost."""
        change = {
            "progress": 1.0,
            "peak_memory_mb": peak_memory_mb,
            "run_seconds": run_seconds,
            "stages_json": text_of(dict(stages or {})),
            "result_json": text_of(dict(result or {})),
            "expires_at": expires_at,
        }
        return self._end(job, "completed", change, {})

    def fail(self, job: Job, code: str, message: str, run_seconds: float | None = None) -> Job:
        """Raises LeaseLost."""
        change = {"error_code": code, "error_message": message, "run_seconds": run_seconds}
        return self._end(job, "failed", change, {"code": code, "message": message})

    def put_back(
        self,
        job: Job,
        *,
        delay: float = 0.0,
        counted: bool = True,
        reason: str = "engine_lost",
    ) -> Job:
        """Queued again, not before `delay` seconds from now. Raises LeaseLost.

        counted: whether this attempt counts; after so many without a chunk more the job fails with
        `reason` as its code instead. The job as it is now.
        """
        with self.database.writing() as connection:
            row = connection.execute(sa.select(jobs).where(*_held(job))).one_or_none()
            if row is None:
                raise LeaseLost(job.id)
            most = MAX_LOSSES if reason == WORKER_LOST else MAX_ATTEMPTS
            if counted and row.strikes >= most:
                said = f"It was lost in each of the last {row.strikes} attempts: {reason}."
                change = {"error_code": reason, "error_message": said}
                told = {"code": reason, "message": said}
                ended = self._finish(connection, _held(job), "failed", change, told)
                assert ended is not None, job.id
                return job_of(ended)
            back = {
                "state": "queued",
                "lease_owner": None,
                "not_before": self._clock() + min(delay, queueing.LONGEST_DELAY),
                "attempt": row.attempt if counted else row.attempt - 1,
                "strikes": row.strikes if counted else max(0, row.strikes - 1),
                **waits(self._steady()),
            }
            queued = self._change(connection, _held(job), back, "requeued", {"reason": reason})
            assert queued is not None, job.id
        return job_of(queued)

    def recover(self, dead: Callable[[str], bool]) -> list[Job]:
        """Puts back jobs whose lease has lapsed or whose owner is `dead`; as they are now.

        A lease lapses when this store has seen its heartbeats stand still for its length, so call
        it every second or so.
        """
        running = self._read(sa.select(jobs).where(jobs.c.state == "in_progress"))
        lapsed = self._watch.lapsed((row.number, row.fence, row.beat) for row in running)
        moved = []
        for row in running:
            if row.number in lapsed or dead(row.lease_owner):
                try:
                    moved.append(self.put_back(job_of(row), reason=WORKER_LOST))
                except LeaseLost:
                    continue  # somebody else has moved it meanwhile, which is as good
        return moved

    # ---- transactions --------------------------------------------------------------------------

    def _end(
        self, job: Job, state: EndState, change: dict[str, Any], told: Mapping[str, Any]
    ) -> Job:
        with self.database.writing() as connection:
            row = self._finish(connection, _held(job), state, change, told)
        if row is None:
            raise LeaseLost(job.id)
        return job_of(row)

    def _finish(
        self,
        connection: sa.Connection,
        mine: Sequence[sa.ColumnElement[bool]],
        state: EndState,
        change: dict[str, Any],
        told: Mapping[str, Any],
    ) -> sa.Row[Any] | None:
        """Ends a job, no earlier than it began."""
        wall = self._clock()
        began = sa.func.coalesce(jobs.c.started_at, jobs.c.created_at)
        change = {
            "state": state,
            "completed_at": sa.case((began > wall, began), else_=wall),
            "lease_owner": None,
        } | change
        return self._change(connection, mine, change, state, told)

    def _change(
        self,
        connection: sa.Connection,
        mine: Sequence[sa.ColumnElement[bool]],
        change: dict[str, Any],
        kind: EventKind,
        told: Mapping[str, Any],
    ) -> sa.Row[Any] | None:
        """Changes the one row that is `mine`, and tells; None if there is none."""
        change = change | {"events": jobs.c.events + 1}
        update = jobs.update().where(*mine).values(change).returning(*jobs.c)
        row = connection.execute(update).one_or_none()
        if row is not None:
            events.note(connection, row.number, row.events, self._clock(), kind, told)
            self._standing.note(row_of(row), queued=row.state == "queued")
        return row

    def _read(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        with self.database.reading() as connection:
            return connection.execute(query).all()


def _held(job: Job) -> tuple[sa.ColumnElement[bool], ...]:
    """The job's row, as long as it is whose fence it bears."""
    return (jobs.c.id == job.id, jobs.c.fence == job.fence, jobs.c.state == "in_progress")


def _open() -> sa.ColumnElement[bool]:
    return jobs.c.state.not_in(ENDED)
