"""One run of load on a running server: who comes when, what they saw, what the server says of it.

Arrivals are the only open-loop axis; each viewer then watches by the server's clock. The run warms
up first: figures are of the frames and events after that. What it is not: the figures (figures.py).
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from onbeat.server.engine.simulate.traces import replay
from onbeat.server.engine.simulate.workload import Arrivals, Lengths, Session, arriving
from onbeat.server.load.http import Server
from onbeat.server.load.jobs import JobDone, work
from onbeat.server.load.scrape import Scrape
from onbeat.server.load.seen import Seen
from onbeat.server.load.viewer import decode_nothing, visit

SAMPLE_SECONDS = 0.5
GRACE_SECONDS = 5.0
"""Jobs are waited for so long after the viewers have gone."""
PROMPTS = (
    "a red ball bouncing over the sea",
    "a blue ring floating at sunset",
    "a green square on white",
    "a yellow heart rolling through the desert",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`rate`: sessions a second; `burstiness`: shape of the gamma distribution of their gaps (1 is
    Poisson); `trace`: a file of arrivals instead (start, seconds, class); `lifetime`: mean seconds,
    lognormal by `sigma`; `jobs`: a second, Poisson; seconds otherwise."""

    rate: float = 0.5
    burstiness: float = 1.0
    trace: Path | None = None
    lifetime: float = 20.0
    sigma: float = 0.0
    seconds: float = 30.0
    warm: float = 5.0
    jobs: float = 0.0
    job_seconds: float = 2.0
    audio: bool = True
    steps: int | None = None
    seed: int = 0

    @property
    def whole(self) -> float:
        return self.warm + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The server at one instant of the run, as it says itself."""

    at: float
    sessions: int
    waiting: int
    busy: float | None
    pages: int
    fps_sent: float
    on_time: float | None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """`start`, `end`: of the measured part, by the monotonic clock; `grown`: the server's counters
    over it; `model`: as it describes itself; `sessions`: who was to come, as `seen` has what became
    of them; `row_seconds`: medians of the server's forwards by rows."""

    load: Load
    start: float
    end: float
    grown: Scrape
    model: dict[str, Any]
    sessions: list[Session] = field(default_factory=list)
    row_seconds: dict[int, float] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    jobs: list[JobDone] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


async def run(server: Server, load: Load) -> Outcome:
    """Raises RefusedError or OSError if the server cannot be measured at all."""
    decode_nothing()
    model = (await asyncio.to_thread(server.get, "/v1/models"))["data"][0]
    visits, jobs = sessions_of(load), instants_of_jobs(load)
    zero = time.monotonic()
    measured, end = zero + load.warm, zero + load.whole
    samples: list[Sample] = []
    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(_come(server, load, s, zero, end)) for s in visits]
        workers = [group.create_task(_work(server, load, zero + at, end, n)) for n, at in jobs]
        group.create_task(_sample(server, measured, end, samples))
        before = group.create_task(_scrape(server, measured))
        after = group.create_task(_scrape(server, end - SAMPLE_SECONDS / 2))
    told = await asyncio.to_thread(server.get, "/v1/overview")
    return Outcome(
        load=load,
        start=measured,
        end=end - SAMPLE_SECONDS / 2,
        grown=after.result().since(before.result()),
        model=model,
        sessions=visits,
        row_seconds=_row_seconds(told),
        seen=[task.result() for task in watchers],
        jobs=[task.result() for task in workers],
        samples=samples,
    )


def sessions_of(load: Load) -> list[Session]:
    """Who comes when, and for how long; the same seed, the same list."""
    if load.trace is not None:
        return replay(load.trace, until=load.whole)
    arrivals = Arrivals(rate=load.rate, burstiness=load.burstiness)
    lengths = Lengths(mean=load.lifetime, sigma=load.sigma)
    return arriving(arrivals, lengths, until=load.whole, seed=load.seed)


def instants_of_jobs(load: Load) -> Sequence[tuple[int, float]]:
    """Numbered, seconds from the start."""
    if not load.jobs:
        return []
    times = Arrivals(rate=load.jobs).times(Random(load.seed + 1), load.whole)
    return list(enumerate(times))


async def _come(server: Server, load: Load, session: Session, zero: float, end: float) -> Seen:
    await asyncio.sleep(max(0.0, zero + session.start - time.monotonic()))
    number = int(session.name.lstrip("s") or 0)
    body: dict[str, Any] = {"prompt": PROMPTS[number % len(PROMPTS)], "seed": number}
    body |= {"audio": load.audio}
    if load.steps is not None:
        body["num_inference_steps"] = load.steps
    return await visit(server, body, seconds=session.seconds, end=end, audio=load.audio)


async def _work(server: Server, load: Load, at: float, end: float, number: int) -> JobDone:
    await asyncio.sleep(max(0.0, at - time.monotonic()))
    prompt = PROMPTS[number % len(PROMPTS)]
    body = {"prompt": prompt, "seconds": f"{load.job_seconds:g}", "seed": number}
    return await work(server, body, end + GRACE_SECONDS)


def _row_seconds(told: dict[str, Any]) -> dict[int, float]:
    costs = [cost for cost in told["engine"]["costs"] if cost["kind"] == "step" and cost["p50_ms"]]
    return {cost["rows"]: cost["p50_ms"] / 1e3 for cost in costs}


async def _scrape(server: Server, at: float) -> Scrape:
    await asyncio.sleep(max(0.0, at - time.monotonic()))
    return Scrape.of(await asyncio.to_thread(server.text, "/metrics"))


async def _sample(server: Server, start: float, end: float, samples: list[Sample]) -> None:
    await asyncio.sleep(max(0.0, start - time.monotonic()))
    while time.monotonic() < end:
        told = await asyncio.to_thread(server.get, "/v1/overview")
        samples.append(_point(told, time.monotonic()))
        await asyncio.sleep(SAMPLE_SECONDS)


def _point(told: dict[str, Any], now: float) -> Sample:
    live, engine = told["live"], told["engine"]
    return Sample(
        at=now,
        sessions=live["sessions"],
        waiting=engine["waiting"] or 0,
        busy=engine["busy_ratio"],
        pages=engine["pages_used"] or 0,
        fps_sent=sum(session["fps_sent"] for session in told["sessions"]),
        on_time=live["on_time_ratio_10s"],
    )
