"""Runs the queued jobs: claims, attempts in threads, leases kept alive, ends written down.

One worker per process. After a crash of the engine a job starts over with the same seed; after a
crash of the whole server the next one finds the job and does the same.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from onbeat.server.jobs import workspace
from onbeat.server.jobs.artifacts import Artifacts
from onbeat.server.jobs.attempt import (
    Attempt,
    EngineDoor,
    EngineLost,
    JobFailed,
    NotNow,
    Stopped,
)
from onbeat.server.jobs.database import is_full, is_out_of_reach
from onbeat.server.jobs.job import Job
from onbeat.server.jobs.owner import Owner
from onbeat.server.jobs.store import JobStore, LeaseLost

log = logging.getLogger("onbeat.jobs")

LOOK_SECONDS = 0.25
BEATS_PER_LEASE = 6
REAP_SECONDS = 1.0
JOIN_SECONDS = 5.0
REACH_SECONDS = 1.0
"""Between attempts to reach a database that is away."""


class JobWorker:
    """slots: jobs generated at the same time. started, finished: told of each (for metrics)."""

    def __init__(
        self,
        store: JobStore,
        artifacts: Artifacts,
        door: EngineDoor,
        *,
        slots: int,
        started: Callable[[Job], None],
        finished: Callable[[str, float], None],
    ) -> None:
        self._store, self._artifacts, self._door = store, artifacts, door
        self._slots = slots
        self._started, self._finished = started, finished
        self._owner = Owner.here()
        self._running: dict[str, tuple[Attempt, threading.Thread]] = {}
        self._unsettled: deque[Job] = deque()
        self._left: deque[str] = deque()
        """Jobs that nobody runs here, whose work may lie about."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._beaten_at = self._reaped_at = 0.0
        self.watchers: list[Callable[[str], None]] = []
        """Told the id of each job that this worker changes, on the worker's threads."""
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        """Takes up what an ended process left, then works until `close`."""
        self._recover()
        if not self._store.counts()["in_progress"]:  # no other server works in this folder
            self._artifacts.sweep(self._store.known_ids())
        workspace.sweep(self._artifacts.work, lambda: self._store.known_ids(ended=False))
        self._thread.start()

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def stop_job(self, job_id: str) -> None:
        """The job was cancelled or deleted: give its stream back at once."""
        with self._lock:
            entry = self._running.get(job_id)
        if entry is not None:
            entry[0].stop()
        else:  # an earlier attempt may have left something
            self._left.append(job_id)
            self._wake.set()

    def seconds(self, job_id: str) -> float | None:
        """How long this process has worked on a job; None if it does not."""
        with self._lock:
            entry = self._running.get(job_id)
        return None if entry is None else entry[0].seconds

    def close(self) -> None:
        """Puts running jobs back into the queue and ends. Idempotent."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            running = list(self._running.values())
        for attempt, _ in running:
            attempt.stop()
        for _, thread in running:
            thread.join(JOIN_SECONDS)

    # ---- the worker's thread -------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            try:
                self._look()
            except Exception as error:  # a locked or full disk must not end the worker
                self._failed(error)
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()

    def _failed(self, error: Exception) -> None:
        if is_out_of_reach(error):
            log.warning("the job worker cannot reach its database: %s", error)
            time.sleep(REACH_SECONDS)
        else:
            log.exception("the job worker failed; it goes on", exc_info=error)

    def _look(self) -> None:
        self._put_back_unsettled()
        while self._left:
            self._forget(self._left.popleft())
        now = time.monotonic()
        if now - self._beaten_at >= self._store.lease_seconds / BEATS_PER_LEASE:
            self._beaten_at = now
            self._keep_leases()
        if now - self._reaped_at >= REAP_SECONDS:
            self._reaped_at = now
            self._recover()
            self._store.database.tidy()
        while len(self._running) < self._slots and self._door.state == "ready":
            if not self._claim():
                return

    def _claim(self) -> bool:
        job = self._store.claim(str(self._owner))
        ready = self._door.ready
        if job is None:
            return False
        assert ready is not None, "an engine that is ready has announced itself"
        self._started(job)
        self._tell(job.id)
        attempt = Attempt(job, ready, self._door, self._store, self._artifacts, self._tell)
        thread = threading.Thread(target=self._attempt, args=(attempt,), name=f"job-{job.number}")
        with self._lock:
            self._running[job.id] = (attempt, thread)
        thread.start()
        return True

    def _keep_leases(self) -> None:
        with self._lock:
            attempts = [attempt for attempt, _ in self._running.values()]
        for attempt in attempts:
            try:
                self._store.renew(attempt.job)
            except LeaseLost:
                attempt.stop()

    def _put_back_unsettled(self) -> None:
        """Jobs of attempts whose end could not be written down when they ended."""
        while self._unsettled:
            job = self._unsettled[0]
            with suppress(LeaseLost):
                self._store.put_back(job, counted=False, reason="no_store")
            self._unsettled.popleft()

    def _recover(self) -> None:
        moved = self._store.recover(self._owner.knows_dead)
        for job in moved:
            self._tell(job.id)
            if job.ended:
                self._finished("failed", 0.0)
                self._forget(job.id)
        if moved:
            log.info("%d interrupted jobs were taken up", len(moved))

    def _tell(self, job_id: str) -> None:
        for watcher in self.watchers:
            watcher(job_id)

    # ---- an attempt's thread -------------------------------------------------------------------

    def _attempt(self, attempt: Attempt) -> None:
        job = attempt.job
        try:
            self._settle(attempt)
        except LeaseLost:
            log.info("job %s is no longer ours", job.id)
        except Exception as error:  # the store itself failed
            known = is_out_of_reach(error)
            said = "job %s: its end could not be written down yet: %s"
            log.warning(said, job.id, error, exc_info=not known)
            self._unsettled.append(job)
        finally:
            self._forget(job.id)
            with self._lock:
                del self._running[job.id]
            self._tell(job.id)
            self._wake.set()

    def _forget(self, job_id: str) -> None:
        """Nothing is kept of a job that has ended, or is gone."""
        try:
            now = self._store.get(job_id)
            if now is None or now.ended:
                workspace.forget(self._artifacts.work, job_id)
        except Exception:  # swept at the next start
            log.exception("job %s: what was made of it could not be removed", job_id)

    def _settle(self, attempt: Attempt) -> None:
        """Runs the attempt and writes down how it ended. Raises LeaseLost."""
        job = attempt.job
        try:
            done = attempt.run()
            self._finished("completed", done.run_seconds or 0.0)
        except LeaseLost:
            raise
        except EngineLost:
            log.warning("job %s lost its engine in attempt %d", job.id, job.attempt)
            self._put_back(job)
        except NotNow as later:
            self._store.put_back(job, delay=later.delay, counted=False, reason="no_room")
        except Stopped:
            self._store.put_back(job, counted=False, reason="server_stopped")
        except JobFailed as error:
            self._fail(attempt, error.code, str(error))
        except OSError as error:
            log.error("job %s: its result could not be written: %s", job.id, error)
            self._out_of_room(attempt, error.strerror or "see the server's log")
        except Exception as error:
            if is_full(error):
                log.error("job %s: the disk of the list of jobs is full", job.id)
                self._out_of_room(attempt, "the disk of the list of jobs is full")
                return
            if is_out_of_reach(error):
                raise  # nothing can be written down now
            log.exception("job %s failed", job.id)
            self._fail(attempt, "internal_error", "The server failed on this job; see its log.")

    def _out_of_room(self, attempt: Attempt, reason: str) -> None:
        """What was made goes first: on a full disk its room is what the row needs. reason: clients
        are told it, so it names no place."""
        workspace.forget(self._artifacts.work, attempt.job.id)
        self._fail(attempt, "storage_failed", f"The result could not be written: {reason}.")

    def _put_back(self, job: Job) -> None:
        if self._store.put_back(job).ended:
            self._finished("failed", 0.0)

    def _fail(self, attempt: Attempt, code: str, message: str) -> None:
        self._store.fail(attempt.job, code, message, attempt.seconds)
        self._finished("failed", attempt.seconds)
