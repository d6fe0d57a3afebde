"""A job in the shape that clients know. Plain; asks nobody (video_view.py does)."""

from onbeat.server.api.video_schema import Video, VideoError, VideoWebhook
from onbeat.server.jobs.formats import media_type
from onbeat.server.jobs.job import Job
from onbeat.server.jobs.webhooks import Webhook


def percent(share: float) -> int:
    """Of a job that is not completed."""
    return min(99, int(100 * share))


def view(
    job: Job,
    position: int | None,
    webhook: Webhook | None = None,
    left: float | None = None,
    base: str = "",
) -> Video:
    """position: in the queue; left: estimated seconds; base: of the file's address."""
    request = job.request
    error = None
    if job.error_code is not None:
        error = VideoError(code=job.error_code, message=job.error_message or "")
    parent = {request.kind: request.parent}
    return Video(
        id=job.id,
        model=request.model,
        status=job.state,
        progress=100 if job.state == "completed" else percent(job.progress),
        created_at=int(job.created_at),
        started_at=_whole(job.started_at),
        completed_at=_whole(job.completed_at),
        expires_at=_whole(job.expires_at),
        prompt=request.prompt,
        recognised=_recognised(job),
        seconds=f"{request.seconds:g}",
        size=f"{request.width}x{request.height}",
        remixed_from_video_id=parent.get("remix"),
        extended_from_video_id=parent.get("extension"),
        error=error,
        seed=request.seed,
        num_inference_steps=request.steps,
        num_frames=request.frames,
        fps=request.fps,
        width=request.width,
        height=request.height,
        generate_audio=request.audio,
        output_format=request.format,
        media_type=media_type("video", request.format),
        priority=request.priority,
        metadata=request.metadata,
        webhook=None if webhook is None else _webhook(webhook),
        attempt=job.attempt,
        queue_position=position,
        eta_s=None if left is None or job.ended else round(left, 2),
        inference_time_s=None if job.run_seconds is None else round(job.run_seconds, 3),
        stage_durations={name: round(took, 4) for name, took in job.stages.items()},
        peak_memory_mb=job.peak_memory_mb,
        url=f"{base}/v1/videos/{job.id}/content" if job.state == "completed" else None,
    )


def _recognised(job: Job) -> list[str] | None:
    """None until the engine has told: no words are an answer, too, of a job that got somewhere."""
    told = bool(job.recognised) or job.progress > 0 or job.state == "completed"
    return job.recognised if told else None


def _webhook(told: Webhook) -> VideoWebhook:
    return VideoWebhook(url=told.url, status=told.state, attempts=told.attempts, error=told.error)


def _whole(instant: float | None) -> int | None:
    return None if instant is None else int(instant)
