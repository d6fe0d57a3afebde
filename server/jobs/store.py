"""The durable list of jobs: added, claimed under a lease, moved on under a fence, found again.

Every change is one transaction. A row exists before any work on it starts; whoever lost its lease
can change nothing any more, as each claim raises the fence. Thread-safe. Wall-clock seconds.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from onbeat.server.jobs.job import ENDED, MAX_ATTEMPTS, Job, JobRequest, JobState
from onbeat.server.jobs.table import READ, jobs, open_database
from onbeat.server.vocabulary import new_id

LEASE_SECONDS = 30.0


class LeaseLost(Exception):
    """The job was cancelled, deleted or given to somebody else; stop working on it."""


class JobStore:
    """Jobs in one SQLite file. `clock` gives Unix seconds."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._engine = open_database(path)
        self._clock = clock

    def close(self) -> None:
        self._engine.dispose()

    # ---- asked for by clients ------------------------------------------------------------------

    def add(self, request: JobRequest) -> Job:
        """A new queued job; on the disk when this returns."""
        row = {
            "id": new_id("video"),
            "state": "queued",
            "request_json": msgspec.json.encode(request),
            "seed": request.seed,
            "created_at": self._clock(),
        }
        with self._engine.begin() as connection:
            found = connection.execute(sa.insert(jobs).values(row).returning(*jobs.c)).one()
        return _job(found)

    def get(self, job_id: str) -> Job | None:
        rows = self._read(sa.select(jobs).where(jobs.c.id == job_id))
        return _job(rows[0]) if rows else None

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
        return [_job(row) for row in self._read(query.order_by(order))]

    def cancel(self, job_id: str) -> Job | None:
        """Ends a job that has not ended; the job as it is now, None if unknown."""
        change = (
            sa.update(jobs)
            .where(jobs.c.id == job_id, jobs.c.state.not_in(ENDED))
            .values(state="cancelled", completed_at=self._clock(), fence=jobs.c.fence + 1)
        )
        self._write(change)
        return self.get(job_id)

    def delete(self, job_id: str) -> bool:
        """Forgets a job, whatever its state; False if unknown."""
        return self._write(sa.delete(jobs).where(jobs.c.id == job_id)) == 1

    def position(self, job: Job) -> int | None:
        """1 for the next to start; None unless queued."""
        if job.state != "queued":
            return None
        ahead = sa.select(sa.func.count()).select_from(jobs)
        ahead = ahead.where(jobs.c.state == "queued", jobs.c.number <= job.number)
        return int(self._read(ahead)[0][0])

    def counts(self) -> dict[str, int]:
        """Jobs by state; states without jobs are 0."""
        number = sa.func.count().label("number")
        query = sa.select(jobs.c.state, number).group_by(jobs.c.state)
        found = {row.state: int(row.number) for row in self._read(query)}
        return {state: found.get(state, 0) for state in ("queued", "in_progress", *ENDED)}

    def known_ids(self) -> set[str]:
        return {row[0] for row in self._read(sa.select(jobs.c.id))}

    # ---- asked for by the worker ---------------------------------------------------------------

    def claim(self, owner: str) -> Job | None:
        """The oldest job that may start, now `owner`'s for LEASE_SECONDS; None if there is none."""
        now = self._clock()
        first = (
            sa.select(jobs.c.number)
            .where(jobs.c.state == "queued", jobs.c.not_before <= now)
            .order_by(jobs.c.number)
            .limit(1)
        )
        change = (
            sa.update(jobs)
            .where(jobs.c.number == first.scalar_subquery())
            .values(
                state="in_progress",
                attempt=jobs.c.attempt + 1,
                fence=jobs.c.fence + 1,
                lease_owner=owner,
                lease_expires_at=now + LEASE_SECONDS,
                progress=0.0,
                started_at=now,
            )
            .returning(*jobs.c)
        )
        with self._engine.begin() as connection:
            row = connection.execute(change).one_or_none()
        return _job(row) if row else None

    def renew(self, job: Job, **values: Any) -> None:
        """Extends the lease and notes progress. Raises LeaseLost."""
        self._held(job, lease_expires_at=self._clock() + LEASE_SECONDS, **values)

    def note_recognised(self, job: Job, words: Sequence[str]) -> None:
        """Raises LeaseLost."""
        self._held(job, recognised_json=msgspec.json.encode(list(words)))

    def complete(self, job: Job, peak_memory_mb: float | None) -> Job:
        """The result is stored; the job as it is now. Raises LeaseLost."""
        self._end(job, "completed", progress=1.0, peak_memory_mb=peak_memory_mb)
        done = self.get(job.id)
        if done is None:
            raise LeaseLost(job.id)
        return done

    def fail(self, job: Job, code: str, message: str) -> None:
        """Raises LeaseLost."""
        self._end(job, "failed", error_code=code, error_message=message)

    def put_back(self, job: Job, *, delay: float = 0.0, counted: bool = True) -> None:
        """Queued again, not before `delay` seconds from now. Raises LeaseLost.

        counted: whether this attempt counts; after MAX_ATTEMPTS the job fails instead.
        """
        if counted and job.attempt >= MAX_ATTEMPTS:
            message = f"The engine was lost during each of {job.attempt} attempts."
            self.fail(job, "engine_lost", message)
            return
        self._held(
            job,
            state="queued",
            progress=0.0,
            lease_owner=None,
            lease_expires_at=None,
            not_before=self._clock() + delay,
            attempt=job.attempt if counted else job.attempt - 1,
        )

    def recover(self, dead: Callable[[str], bool]) -> int:
        """Puts back jobs whose lease is over or whose owner is `dead`; how many."""
        running = sa.select(jobs).where(jobs.c.state == "in_progress")
        stale = [
            _job(row)
            for row in self._read(running)
            if row.lease_expires_at < self._clock() or dead(row.lease_owner)
        ]
        for job in stale:
            try:
                self.put_back(job)
            except LeaseLost:
                continue  # somebody else has moved it meanwhile, which is as good
        return len(stale)

    # ---- transactions --------------------------------------------------------------------------

    def _end(self, job: Job, state: JobState, **values: Any) -> None:
        self._held(job, state=state, completed_at=self._clock(), lease_owner=None, **values)

    def _held(self, job: Job, **values: Any) -> None:
        mine = (jobs.c.id == job.id, jobs.c.fence == job.fence, jobs.c.state == "in_progress")
        if self._write(sa.update(jobs).where(*mine).values(values)) != 1:
            raise LeaseLost(job.id)

    def _write(self, statement: sa.Update | sa.Delete) -> int:
        with self._engine.begin() as connection:
            return connection.execute(statement).rowcount

    def _read(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        with self._engine.connect().execution_options(**READ) as connection:
            return connection.execute(query).all()


def _job(row: sa.Row[Any]) -> Job:
    return Job(
        number=row.number,
        id=row.id,
        state=row.state,
        request=msgspec.json.decode(row.request_json, type=JobRequest),
        attempt=row.attempt,
        fence=row.fence,
        progress=row.progress,
        recognised=msgspec.json.decode(row.recognised_json, type=list[str]),
        error_code=row.error_code,
        error_message=row.error_message,
        created_at=row.created_at,
        started_at=row.started_at,
        completed_at=row.completed_at,
        peak_memory_mb=row.peak_memory_mb,
    )
