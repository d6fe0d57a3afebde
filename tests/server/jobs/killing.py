"""Kills servers of jobs at random points, round after round, and counts what was lost or doubled.

Jobs are asked for over HTTP, with 40 of them open at any time. Before the rounds each kind of job
is made once without being disturbed; afterwards every job has to have that file, to the byte, and
its webhook has to have been told, with a right signature and never before its end. After each round
no job may have begun more than one chunk anew that it had begun to write down.
"""

import random
import time
import urllib.error
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onbeat.server.jobs.job import ENDED, JobRequest
from onbeat.server.jobs.store import JobStore
from onbeat.server.jobs.workspace import folders
from tests.server.jobs.diary import Diary
from tests.server.jobs.kill_target import CALLS
from tests.server.jobs.target_client import Client
from tests.server.jobs.targets import PATIENCE, Target, Zygote
from tests.server.jobs.told import NETWORKS, SECRET, telling

FRAMES = 100
"""Two segments."""
SEEDS = 4
SLOTS = 8
CHUNK_SECONDS = 0.002
CALL_SECONDS = 1.0
"""Until a server that did not come to its call is killed at an instant."""
MOST_CALLS = {"webhook": 3}
WEBHOOK_LEASE = 2.0
OLD = JobRequest(
    model="toybox", prompt="old", seed=1, steps=2, frames=20, fps=20, width=32, height=32
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`unknown`: asked for when the server was killed, so that no answer came; those that are there
    count like the others. Seconds of `ready`: from the start of a server to its readiness."""

    rounds: int
    killed_at: dict[str, int]
    accepted: int
    unknown: int
    completed: int
    lost: int
    doubled: int
    wrong: int
    not_completed: int
    failed_with: dict[str, int]
    resumed: int
    lost_chunks_max: int
    """The most chunks that a resumed job had begun to write down and began anew."""
    made_again_max: int
    """The most that the synthetic engine had made, which is much faster than disks."""
    rounds_by_lost_chunks: dict[int, int]
    webhooks: int
    untold: int
    told_wrong: list[str]
    left_over: int
    on_record: int
    ready_max: float

    @property
    def clean(self) -> bool:
        lost = self.lost or self.not_completed or self.untold or self.lost_chunks_max > 1
        return not (lost or self.doubled or self.wrong or self.told_wrong or self.left_over)


@dataclass
class Killing:
    """One database and folder through many servers."""

    folder: Path
    seed: int
    database_url: str | None = None
    open_jobs: int = 40
    on_record: int = 0
    """Ended jobs that are there before the first server starts."""
    ready: list[float] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    unknown: int = 0
    killed_at: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.zygote = Zygote()
        self.diary = Diary(self.folder / "diary")
        self.lost_chunks: Counter[int] = Counter()
        self.stack = ExitStack()
        self.store = JobStore(self.database_url or self.folder / "data" / "jobs.sqlite3")
        self.stack.callback(self.store.close)
        self.before = {self._old_job() for _ in range(self.on_record)}
        self.told = self.stack.enter_context(telling(self._state_of))
        self.server: Target | None = None
        self.client = Client("")

    def _old_job(self) -> str:
        job = self.store.add(OLD)
        self.store.cancel(job.id)
        return job.id

    def _state_of(self, job_id: str) -> str | None:
        job = self.store.get(job_id)
        return job.state if job is not None else None

    # ---- one server ----------------------------------------------------------------------------

    def start(self, **more: Any) -> None:
        """A server, once it is ready."""
        settings = {
            "data_dir": str(self.folder / "data"),
            "database_url": self.database_url,
            "max_jobs_running": SLOTS,
            "webhook_secret": SECRET,
            "webhook_networks": NETWORKS,
        }
        self.server = self.zygote.start(
            settings,
            chunk_seconds=CHUNK_SECONDS,
            diary=str(self.diary.path),
            webhook_lease=WEBHOOK_LEASE,
            **more,
        )
        self.client = self.server.client
        self.ready.append(self.server.ready_seconds)

    def alive(self) -> bool:
        return self.server is not None and self.server.alive()

    def kill(self) -> None:
        if self.server is not None:
            self.server.kill()

    def close(self) -> None:
        self.kill()
        self.zygote.close()
        self.stack.close()

    # ---- rounds --------------------------------------------------------------------------------

    def undisturbed(self) -> dict[int, str]:
        """The hash of each kind's file by its seed."""
        self.start()
        ids = {seed: self._add(seed) for seed in range(SEEDS)}
        found = {seed: self.client.file_hash(self._ended(each)) for seed, each in ids.items()}
        self.accepted += ids.values()
        self.kill()
        return found

    def _add(self, seed: int) -> str:
        return self.client.add(seed, FRAMES, webhook_url=self.told.url)

    def _ended(self, video_id: str) -> str:
        began = time.monotonic()
        while self.client.state(video_id) not in ENDED:
            assert time.monotonic() - began < PATIENCE, f"{video_id} does not end"
            time.sleep(0.02)
        return video_id

    def round(self) -> None:
        """A server that is killed before long, at a call or at an instant."""
        call = self.random.choice(["", *CALLS])
        more: dict[str, Any] = {}
        if call:
            count = self.random.randrange(1, MOST_CALLS.get(call, 40))
            more = {"call": call, "count": count, "after": self.random.random() < 0.5}
        elif self.random.random() < 0.3:
            more = {"engine_after": 0.1 + self.random.random() / 4}
        self.start(**more)
        self._fill()
        until = time.monotonic() + (CALL_SECONDS if call else 0.7 * self.random.random())
        while self.alive() and time.monotonic() < until:
            time.sleep(0.005)
        self.killed_at[(call or "instant") if not self.alive() else "instant"] += 1
        self.kill()
        lost = self.diary.read()
        assert lost <= 1, f"{lost} chunks were begun anew"
        self.lost_chunks[lost] += 1

    def _fill(self) -> None:
        """As many jobs as there should be open; stops when the server is gone."""
        try:
            for _ in range(self.open_jobs - self.client.open_jobs()):
                seed = self.random.randrange(SEEDS)
                self.unknown += 1
                self.accepted.append(self._add(seed))
                self.unknown -= 1
        except (urllib.error.URLError, OSError):
            return

    # ---- the count -----------------------------------------------------------------------------

    def report(self, rounds: int, expected: dict[int, str]) -> Report:
        """Lets all jobs end, and looks at every one."""
        self.start()
        ids = [each for each in self.client.all_ids() if each not in self.before]
        for video_id in ids:
            self._ended(video_id)
        wrong = sum(self._is_wrong(video_id, expected) for video_id in ids)
        left_over = self._left_over(ids)
        untold = self._untold(ids)
        self.kill()
        self.diary.read()
        jobs = self.store.page(after=None, limit=100_000, newest_first=False)
        jobs = [job for job in jobs if job.id not in self.before]
        told = [self.store.events(job) for job in jobs]
        ends = [sum(event.kind in ENDED for event in events) for events in told]
        return Report(
            rounds=rounds,
            killed_at=dict(self.killed_at),
            accepted=len(self.accepted),
            unknown=self.unknown,
            completed=sum(job.state == "completed" for job in jobs),
            lost=len(set(self.accepted) - set(ids)),
            doubled=sum(count > 1 for count in ends)
            + max(0, len(ids) - len(self.accepted) - self.unknown),
            wrong=wrong,
            not_completed=sum(job.state != "completed" for job in jobs),
            failed_with=dict(Counter(job.error_code for job in jobs if job.error_code)),
            resumed=sum(map(_resumed, told)),
            lost_chunks_max=self.diary.taken_again,
            made_again_max=self.diary.made_again,
            rounds_by_lost_chunks=dict(sorted(self.lost_chunks.items())),
            webhooks=self.told.deliveries,
            untold=untold,
            told_wrong=self.told.wrong[:10],
            left_over=left_over,
            on_record=self.on_record,
            ready_max=round(max(self.ready), 3),
        )

    def _left_over(self, ids: list[str]) -> int:
        """Work folders that stay behind jobs that have ended."""
        work, began = self.folder / "data" / "work", time.monotonic()
        while count := sum(len(folders(work, video_id)) for video_id in ids):
            if time.monotonic() - began > PATIENCE:
                return count
            time.sleep(0.02)
        return 0

    def _untold(self, ids: list[str]) -> int:
        """Jobs of whose end nobody was told."""
        began = time.monotonic()
        while count := len(set(ids) - set(self.told.jobs)):
            if time.monotonic() - began > PATIENCE:
                return count
            time.sleep(0.02)
        return 0

    def _is_wrong(self, video_id: str, expected: dict[int, str]) -> bool:
        job = self.client.get(video_id)
        if job["status"] != "completed":
            return False
        return self.client.file_hash(video_id) != expected[job["seed"]]


def _resumed(events: list[Any]) -> bool:
    """Whether the second attempt, or a later one that got further, began behind the first chunk."""
    after = False
    for event in events:
        if after and event.kind == "progress":
            return bool(event.data["checkpoint"] > 0)
        after = event.kind == "started" and event.data["attempt"] > 1
    return False


def run(
    folder: Path,
    *,
    rounds: int,
    seed: int,
    open_jobs: int = 40,
    database_url: str | None = None,
    on_record: int = 0,
) -> Report:
    """`rounds` servers killed, then all jobs made and looked at."""
    killing = Killing(folder, seed, database_url, open_jobs, on_record)
    try:
        expected = killing.undisturbed()
        for _ in range(rounds):
            killing.round()
        return killing.report(rounds, expected)
    finally:
        killing.close()
