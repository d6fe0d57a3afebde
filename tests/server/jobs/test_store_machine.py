"""Two servers on one database under generated histories: work, silence, death, clocks that step.

A model beside the store knows whose claim on each job is the last one. What must hold is checked
after each step: nobody else changes a job, none is lost, each ends once, whoever beats keeps its
job, and whoever is silent for a lease loses it.
"""

import itertools
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from onbeat.server.jobs.job import ENDED, MAX_LOSSES, Job, JobRequest
from onbeat.server.jobs.store import JobStore, LeaseLost
from tests.server.jobs.postgres import new_database

LEASE = 30.0
SERVERS = ("one", "two")
server_names = st.sampled_from(SERVERS)
_numbers = itertools.count()


@dataclass
class Life:
    """What the model knows of a job."""

    fence: int = 0
    state: str = "queued"
    holder: str | None = None
    beaten_at: float = 0.0
    ends: int = 0


@dataclass
class Clocks:
    """`wall` of a server may step, `steady` may not."""

    wall: float = 1e9
    steady: float = 50.0


@dataclass
class Side:
    """A server's store and clocks, and whether it runs."""

    clocks: Clocks
    store: JobStore
    claims: list[Job] = field(default_factory=list)


class Machine(RuleBasedStateMachine):
    """`place` is set by the tests below."""

    postgres: str | None = None
    claims: Bundle[tuple[str, Job]] = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.place: Path | str = self.folder / "jobs.sqlite3"
        if self.postgres is not None:
            self.place = new_database(self.postgres, f"machine{next(_numbers)}")
        self.sides: dict[str, Side] = {}
        for name in SERVERS:
            clocks = Clocks(steady=100.0 * len(name))
            self.sides[name] = Side(clocks, self._store(clocks))
        self.lives: dict[str, Life] = {}

    def _store(self, clocks: Clocks) -> JobStore:
        return JobStore(
            self.place,
            lambda: clocks.wall,
            monotonic=lambda: clocks.steady,
            lease_seconds=LEASE,
        )

    def teardown(self) -> None:
        try:
            self._drain()
        finally:
            for side in self.sides.values():
                side.store.close()
            shutil.rmtree(self.folder)

    # ---- what happens --------------------------------------------------------------------------

    @rule(name=server_names, owner=st.sampled_from(["a", "b"]), priority=st.integers(-2, 2))
    def add(self, name: str, owner: str, priority: int) -> None:
        request = JobRequest(
            model="m",
            prompt="p",
            seed=1,
            steps=1,
            frames=8,
            fps=8,
            width=8,
            height=8,
            owner=owner,
            priority=priority,
        )
        job = self.sides[name].store.add(request)
        self.lives[job.id] = Life()

    @rule(target=claims, name=server_names)
    def claim(self, name: str) -> "tuple[str, Job] | MultipleResults[tuple[str, Job]]":
        job = self.sides[name].store.claim(name)
        if job is None:
            return multiple()
        life = self.lives[job.id]
        assert life.state == "queued", f"{job.id} was {life.state} of {life.holder}"
        assert job.fence > life.fence
        life.state, life.fence, life.holder = "in_progress", job.fence, name
        life.beaten_at = self._now()
        return name, job

    def _now(self) -> float:
        return self.sides["one"].clocks.steady

    def _holds(self, job: Job) -> bool:
        life = self.lives.get(job.id)
        return life is not None and life.state == "in_progress" and life.fence == job.fence

    @rule(claim=claims, chunk=st.integers(0, 3))
    def advance(self, claim: tuple[str, Job], chunk: int) -> None:
        name, job = claim
        if self._holds(job):
            self.sides[name].store.advance(job, checkpoint=chunk, progress=0.5, detail={})
            self.lives[job.id].beaten_at = self._now()
        else:
            with pytest.raises(LeaseLost):
                self.sides[name].store.advance(job, checkpoint=chunk, progress=0.5, detail={})

    @rule(claim=consumes(claims), how=st.sampled_from(["complete", "fail", "put_back"]))
    def end(self, claim: tuple[str, Job], how: str) -> None:
        name, job = claim
        store = self.sides[name].store
        if self._holds(job):
            self._moved(_ended(store, job, how))
        else:
            with pytest.raises(LeaseLost):
                _ended(store, job, how)

    def _moved(self, now: Job) -> None:
        life = self.lives[now.id]
        life.state, life.holder = now.state, None
        life.ends += now.ended

    @rule(name=server_names, data=st.data())
    def cancel_or_delete(self, name: str, data: st.DataObject) -> None:
        if not self.lives:
            return
        # in the order of their making: ids are random, and a repeated run must find the same job
        job_id = data.draw(st.sampled_from(list(self.lives)))
        store, life = self.sides[name].store, self.lives[job_id]
        if data.draw(st.booleans()):
            before = life.state
            now = store.cancel(job_id)
            assert now is not None and (now.state == "cancelled") == (
                before not in ENDED or before == "cancelled"
            )
            if before not in ENDED:
                self._moved(now)
        else:
            assert store.delete(job_id)
            del self.lives[job_id]

    @rule(name=server_names, step=st.sampled_from([-3600.0, 3600.0, -7.0]))
    def step_clock(self, name: str, step: float) -> None:
        self.sides[name].clocks.wall += step

    @rule(seconds=st.sampled_from([0.5, 5.0, 20.0, 40.0]))
    def time(self, seconds: float) -> None:
        for side in self.sides.values():
            side.clocks.wall += seconds
            side.clocks.steady += seconds

    @rule(name=server_names)
    def reap(self, name: str) -> None:
        self._reap(name)

    def _reap(self, name: str) -> None:
        now = self._now()
        for job in self.sides[name].store.recover(lambda owner: False):
            life = self.lives[job.id]
            assert life.state == "in_progress"
            assert now - life.beaten_at >= LEASE, "whoever beats keeps its job"
            self._moved(job)

    @rule(name=server_names)
    def restart(self, name: str) -> None:
        """Its process was killed; the other side knows nothing of it."""
        side = self.sides[name]
        side.store.close()
        side.store = self._store(side.clocks)
        for job in side.store.recover(lambda owner: owner == name):
            assert self.lives[job.id].holder == name
            self._moved(job)

    # ---- what must hold ------------------------------------------------------------------------

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        found = {
            job.id: job
            for job in self.sides["one"].store.page(after=None, limit=10_000, newest_first=False)
        }
        assert set(found) == set(self.lives)
        for job_id, job in found.items():
            life = self.lives[job_id]
            assert job.state == life.state, job_id
            assert life.ends == job.ended
            assert job.fence >= life.fence
            if job.state == "failed" and job.error_code == "worker_lost":
                assert job.strikes >= MAX_LOSSES
            known = [job.created_at, job.started_at, job.completed_at]
            instants = [at for at in known if at is not None]
            assert instants == sorted(instants), "no time is negative"

    def _drain(self) -> None:
        """Everybody has gone: what is left is found by one server and ends."""
        self._reap("two")
        self.time(LEASE + 1)
        self._reap("two")
        self.time(61.0)
        store = self.sides["two"].store
        while (job := store.claim("two")) is not None:
            store.complete(job, None)
        for job in store.page(after=None, limit=10_000, newest_first=False):
            kinds = [event.kind for event in store.events(job)]
            assert job.ended, f"{job.id} is lost: {kinds}"
            assert sum(kind in ENDED for kind in kinds) == 1, kinds


def _ended(store: JobStore, job: Job, how: str) -> Job:
    if how == "complete":
        return store.complete(job, None)
    return store.fail(job, "x", "y") if how == "fail" else store.put_back(job, delay=5.0)


def _run(examples: int, machine: type[Machine] = Machine) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=40)
    )


def test_on_sqlite() -> None:
    _run(25)


def test_a_history_is_the_same_again() -> None:
    """Otherwise a red run cannot be repeated, and Hypothesis stops at what it calls flaky."""
    told: list[list[Life]] = []

    class Told(Machine):
        def teardown(self) -> None:
            told.append([replace(life) for life in self.lives.values()])
            super().teardown()

    _run(20, Told)
    first = told.copy()
    told.clear()
    _run(20, Told)
    assert told == first


def test_on_postgres(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "postgres", postgres)
    _run(6)
