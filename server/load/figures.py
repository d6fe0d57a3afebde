"""The figures of a run, under the names that such benchmarks use. Pure; what is unknown is None.

Of the viewers: start, cadence, freezes. Of the server: deadlines, engine, jobs, by what its metrics
grew in the measured part. `on_time_frame_ratio` is the server's at its sender; `seen_on_time_ratio`
the share of frames that the viewers had in time.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from onbeat.server.load.limit import bound_fps
from onbeat.server.load.run import Outcome
from onbeat.server.load.scrape import Scrape
from onbeat.server.load.seen import (
    Arrival,
    Seen,
    chunk_periods,
    freezes,
    inside,
    intervals,
    lags,
    missing,
    on_time,
)

GOOD_STREAM = 0.99
"""Share of frames in time from which a stream counts as served."""
Figure = float | int | None | dict[str, Any] | str


def figures(outcome: Outcome, alone: Outcome | None = None) -> dict[str, Figure]:
    """Everything, in the order in which it is read. `alone`: the same sessions without jobs."""
    model, load = outcome.model, outcome.load
    head: dict[str, Figure] = {
        "benchmark": "serve",
        "model": model["id"],
        "fps": model["fps"],
        "chunk_frames": model["chunk_frames"],
        "seconds": load.seconds,
        "rate": load.rate if load.trace is None else None,
        "burstiness": load.burstiness if load.trace is None else None,
        "seed": load.seed,
    }
    return (
        head
        | _start(outcome)
        | _cadence(outcome)
        | _deadlines(outcome.grown, model)
        | _viewer(outcome)
        | _goodput(outcome)
        | _engine(outcome)
        | _jobs(outcome)
        | _interference(outcome, alone)
        | _agreement(outcome)
    )


def percentiles(values: Iterable[float], scale: float = 1.0) -> dict[str, float] | None:
    """p50, p95, p99."""
    ordered = sorted(values)
    if not ordered:
        return None
    last = len(ordered) - 1
    return {f"p{q}": round(scale * ordered[round(q / 100 * last)], 3) for q in (50, 95, 99)}


def _watched(outcome: Outcome) -> list[tuple[Seen, list[Arrival]]]:
    """Viewers with frames in the measured part, and those."""
    found = [(s, inside(s.frames, outcome.start, outcome.end)) for s in outcome.seen]
    return [(seen, frames) for seen, frames in found if len(frames) > 1]


def _start(outcome: Outcome) -> dict[str, Figure]:
    come = [s for s in outcome.seen if s.accepted is not None]
    chunk = outcome.model["chunk_frames"]
    return {
        "sessions_offered": len(outcome.seen),
        "sessions_accepted": len(come),
        "admission_reject_rate": _share(len(outcome.seen) - len(come), len(outcome.seen)),
        "connect_ms": percentiles(
            (s.connected - s.offered for s in come if s.connected and s.offered), 1e3
        ),
        "ttff_ms": percentiles(
            (s.frames[0].at - s.accepted for s in come if s.frames and s.accepted), 1e3
        ),
        "ttfc_ms": percentiles(
            (s.frames[chunk - 1].at - s.accepted for s in come if len(s.frames) >= chunk), 1e3
        ),
        "control_to_frame_ms": _histogram(outcome.grown, "control_to_photon_seconds"),
    }


def _cadence(outcome: Outcome) -> dict[str, Figure]:
    model, watched = outcome.model, _watched(outcome)
    gaps = [gap for _, frames in watched for gap in intervals(frames)]
    late = [lags(frames) for _, frames in watched]
    jitter = [abs(b - a) for each in late for a, b in zip(each, each[1:], strict=False)]
    length = model["chunk_frames"] / model["fps"]
    periods = [
        period / length
        for _, frames in watched
        for period in chunk_periods(frames, model["chunk_frames"], model["fps"])
    ]
    found = percentiles(periods)
    return {
        "chunk_latency_ms": _histogram(outcome.grown, "frame_latency_seconds", to="sent"),
        "inter_frame_ms": percentiles(gaps, 1e3),
        "jitter_ms": percentiles(jitter, 1e3),
        "rtf": found["p95"] if found else None,
        "pacing_error_ms": _histogram(outcome.grown, "frame_lateness_seconds"),
    }


def _deadlines(grown: Scrape, model: dict[str, Any]) -> dict[str, Figure]:
    chunks = {found["outcome"]: n for found, n in grown.all("chunks_total")}
    dropped = sum(n for name, n in chunks.items() if name.startswith("dropped_"))
    dropped -= chunks.get("dropped_paused", 0.0)
    made = chunks.get("on_time", 0.0) + chunks.get("late", 0.0)
    steps = {int(found["steps"]): n for found, n in grown.all("chunk_steps_total")}
    fewer = sum(n for count, n in steps.items() if count < model["default_steps"])
    due = grown.total("frames_due_total")
    return {
        "deadline_miss_rate": _share(chunks.get("late", 0.0) + dropped, made + dropped),
        "on_time_frame_ratio": _share(grown.total("frames_on_time_total"), due),
        "skipped_chunks": round(dropped),
        "degraded_chunks": round(fewer),
        "mk_failures": round(grown.total("firm_misses_total")),
        "missed_frames": {
            found["cause"]: round(n) for found, n in grown.all("frames_missed_total") if n
        },
    }


def _viewer(outcome: Outcome) -> dict[str, Figure]:
    watched, fps = _watched(outcome), outcome.model["fps"]
    gaps = [gap for _, frames in watched for gap in freezes(frames)]
    spans = [frames[-1].at - frames[0].at for _, frames in watched]
    all_frames = sum(len(frames) for _, frames in watched)
    skews = [abs(s.skew) for s, _ in watched if s.skew is not None]
    return {
        "freeze_count": len(gaps),
        "total_freezes_duration_s": round(sum(gaps), 3),
        "freeze_rate_per_min": _share(60 * len(gaps), sum(spans)),
        "frames_seen": all_frames,
        "frames_dropped": sum(missing(frames, fps) for _, frames in watched),
        "continuous_play_ratio": _share(sum(spans) - sum(gaps), sum(spans)),
        "seen_on_time_ratio": _share(sum(on_time(frames) for _, frames in watched), all_frames),
        "audio_underrun_s": round(outcome.grown.total("audio_underrun_seconds_total"), 3),
        "av_skew_ms": percentiles(skews, 1e3),
    }


def _goodput(outcome: Outcome) -> dict[str, Figure]:
    seconds, grown = outcome.end - outcome.start, outcome.grown
    watched, fps = _watched(outcome), outcome.model["fps"]
    good = [_in_time(frames, fps) >= GOOD_STREAM for _, frames in watched]
    on_time, bound = grown.total("frames_on_time_total") / seconds, bound_fps(outcome)
    return {
        "goodput_fps": round(on_time, 2),
        "goodput_bound_fps": None if bound is None else round(bound, 2),
        "goodput_ratio": _share(on_time, bound or 0.0),
        "seen_fps": round(sum(len(frames) for _, frames in watched) / seconds, 2),
        "sent_fps": round(grown.total("frames_sent_total") / seconds, 2),
        "goodput_streams": sum(good),
        "streams": len(watched),
        "mean_active_sessions": _mean([sample.sessions for sample in outcome.samples]),
    }


def _in_time(frames: Sequence[Arrival], fps: float) -> float:
    return on_time(frames) / (len(frames) + missing(frames, fps))


def _engine(outcome: Outcome) -> dict[str, Figure]:
    grown, samples = outcome.grown, outcome.samples
    exposed = grown.total("kv_transfer_exposed_seconds_total")
    return {
        "batch_rows": _round(grown.mean("batch_rows")),
        "batch_efficiency": _round(grown.mean("batch_efficiency_ratio")),
        "step_ms": _histogram(grown, "denoise_step_seconds"),
        "plan_ms": _histogram(grown, "plan_seconds"),
        "gpu_busy_ratio": _mean([s.busy for s in samples if s.busy is not None]),
        "kv_pages_used": max((sample.pages for sample in samples), default=None),
        "kv_transfer_exposed_ms": round(1e3 * exposed, 3),
        "streams_waiting": _mean([sample.waiting for sample in samples]),
    }


def _jobs(outcome: Outcome) -> dict[str, Figure]:
    done = [job for job in outcome.jobs if job.status == "completed"]
    seconds = outcome.end - outcome.start
    return {
        "jobs_offered": len(outcome.jobs),
        "jobs_completed": len(done),
        "batch_frames_per_s": round(sum(job.frames for job in done) / seconds, 2),
        "batch_job_turnaround_s": percentiles(
            job.turnaround for job in done if job.turnaround is not None
        ),
    }


def _interference(outcome: Outcome, alone: Outcome | None) -> dict[str, Figure]:
    """What jobs cost the viewers: figures without them, and by how much more is missed with."""
    if alone is None:
        return {"interference": None}
    before = _deadlines(alone.grown, alone.model)
    missed = _deadlines(outcome.grown, outcome.model)["deadline_miss_rate"]
    without = before["deadline_miss_rate"]
    known = isinstance(missed, float) and isinstance(without, float)
    return {
        "interference": round(missed - without, 5) if known else None,  # type: ignore[operator]
        "deadline_miss_rate_without_jobs": without,
        "on_time_frame_ratio_without_jobs": before["on_time_frame_ratio"],
        "goodput_fps_without_jobs": _goodput(alone)["goodput_fps"],
    }


def _agreement(outcome: Outcome) -> dict[str, Figure]:
    """What the viewers measured over what the server says of itself: 1 where both are right."""
    seconds, grown = outcome.end - outcome.start, outcome.grown
    watched = _watched(outcome)
    frames = sum(len(each) for _, each in watched)
    gaps = [gap for _, each in watched for gap in intervals(each)]
    interval = grown.mean("frame_interval_seconds")
    due, in_time = grown.total("frames_due_total"), grown.total("frames_on_time_total")
    shares = {
        "fps": _share(frames / seconds, grown.total("frames_sent_total") / seconds),
        "frame_interval": _share(sum(gaps) / len(gaps), interval) if gaps and interval else None,
        "on_time": _share(sum(on_time(each) for _, each in watched) * due, frames * in_time),
    }
    return {"seen_over_told": {name: share for name, share in shares.items() if share is not None}}


def _histogram(grown: Scrape, name: str, **labels: str) -> dict[str, float] | None:
    """Milliseconds."""
    found = {f"p{q}": grown.quantile(name, q / 100, **labels) for q in (50, 95, 99)}
    if any(value is None for value in found.values()):
        return None
    return {key: round(1e3 * value, 3) for key, value in found.items() if value is not None}


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 5) if whole else None


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
