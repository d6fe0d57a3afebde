"""When a job will be done: from its attempt's own pace, before that from the engine's cost model
and load.

Guesses for people and pollers; nothing is decided by them. What it is not: the engine's plan.
"""

from dataclasses import dataclass

from onbeat.server.engine.messages import EngineReady, EngineStats
from onbeat.server.jobs.job import Job

LEAST_SLACK = 0.05
"""Of the device's time, for jobs beside live streams."""
POLL_RANGE_MS = (200, 10_000)
UNKNOWN_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the engine said of itself, and how many jobs run at the same time."""

    ready: EngineReady | None
    stats: EngineStats | None
    slots: int


def whole_seconds(job: Job, load: Load) -> float | None:
    """What the job takes from its first step on, if it shares the slack with full slots."""
    ready = load.ready
    if ready is None or 1 not in ready.step_ms or 1 not in ready.decode_ms:
        return None
    chunks = -(-job.request.frames // ready.chunk_frames)
    chunk = job.request.steps * ready.step_ms[1] + ready.decode_ms[1]
    live = load.stats.utilisation if load.stats is not None else 0.0
    return chunks * chunk / 1000 * load.slots / max(LEAST_SLACK, 1 - live)


def seconds_left(
    job: Job, position: int | None, load: Load, paced: float | None = None
) -> float | None:
    """Until it is done; None if nothing is known, 0 once it has ended. paced: by the pace of the
    attempt that runs, if that is known (jobs/pace.py)."""
    if job.ended:
        return 0.0
    whole = whole_seconds(job, load)
    if job.state == "queued":
        turns = -(-(position or 1) // load.slots)
        return None if whole is None else whole * (1 - job.progress + turns)
    if paced is not None:
        return paced
    return None if whole is None else whole * (1 - job.progress)


def poll_after_ms(left: float | None) -> int:
    """Until asking again is worth it: half of what is left."""
    if left is None:
        return UNKNOWN_MS
    low, high = POLL_RANGE_MS
    return round(min(high, max(low, 500 * left)))
