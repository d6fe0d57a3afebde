"""The bodies of /v1/videos: the OpenAI wire format and our extras, strict, numbers or their text.

What depends on the served model is checked in `resolve`, which makes the job's request of a body.
"""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from onbeat.server.api.errors import ApiError, invalid
from onbeat.server.api.limits import (
    check_fixed,
    check_model,
    check_negative_prompt,
    check_steps,
    seed_or_random,
)
from onbeat.server.api.schemas import (
    MAX_PROMPT,
    Number,
    Prompt,
    Seed,
    Steps,
    Strict,
    Whole,
)
from onbeat.server.engine.messages import EngineReady
from onbeat.server.jobs.job import Job, JobRequest, JobState

DEFAULT_SECONDS = 4.0
MAX_METADATA = 16
SIZE = re.compile(r"(\d{1,6})x(\d{1,6})")

MetadataText = Annotated[str, Field(max_length=512), BeforeValidator(lambda v: _scalar(v))]
MetadataName = Annotated[str, Field(min_length=1, max_length=64)]


def _scalar(value: Any) -> Any:
    return str(value) if isinstance(value, (int, float)) else value


class VideoCreate(Strict):
    """What POST /v1/videos takes, as JSON or as a form."""

    prompt: Prompt
    model: str | None = Field(None, max_length=200)
    seconds: Number | None = None
    size: str | None = Field(None, max_length=40)
    negative_prompt: str | None = Field(None, max_length=MAX_PROMPT)
    seed: Seed | None = None
    num_inference_steps: Steps | None = None
    num_frames: Whole | None = None
    fps: Whole | None = None
    width: Whole | None = None
    height: Whole | None = None
    generate_audio: bool = True
    metadata: Annotated[dict[MetadataName, MetadataText], Field(max_length=MAX_METADATA)] = {}


class VideoError(BaseModel):
    code: str
    message: str


class Video(BaseModel):
    """A job as the API shows it. `seconds` is text, as in the format that clients know."""

    id: str
    object: Literal["video"] = "video"
    model: str
    status: JobState
    progress: int
    created_at: int
    started_at: int | None
    completed_at: int | None
    expires_at: None = None
    prompt: str
    recognised: list[str]
    seconds: str
    size: str
    quality: Literal["standard"] = "standard"
    remixed_from_video_id: None = None
    error: VideoError | None
    seed: int
    num_inference_steps: int
    num_frames: int
    fps: int
    width: int
    height: int
    generate_audio: bool
    metadata: dict[str, str]
    attempt: int
    queue_position: int | None
    inference_time_s: float | None
    peak_memory_mb: float | None
    url: str | None


class VideoPage(BaseModel):
    object: Literal["list"] = "list"
    data: list[Video]
    first_id: str | None
    last_id: str | None
    has_more: bool


class VideoDeleted(BaseModel):
    id: str
    object: Literal["video.deleted"] = "video.deleted"
    deleted: bool = True


def resolve(
    body: VideoCreate, ready: EngineReady, max_seconds: float, owner: str = ""
) -> JobRequest:
    """The job's request: defaults filled in, seed drawn. Raises ApiError 422 or 404."""
    check_model(body.model, ready)
    check_negative_prompt(body.negative_prompt)
    _check_size(body.size, ready)
    check_fixed("fps", body.fps, ready.fps)
    check_fixed("width", body.width, ready.width)
    check_fixed("height", body.height, ready.height)
    return JobRequest(
        model=ready.model,
        prompt=body.prompt,
        seed=seed_or_random(body.seed),
        steps=check_steps("num_inference_steps", body.num_inference_steps, ready),
        frames=_frames(body, ready.fps, max_seconds),
        fps=ready.fps,
        width=ready.width,
        height=ready.height,
        audio=body.generate_audio,
        metadata=body.metadata,
        owner=owner,
    )


def _check_size(size: str | None, ready: EngineReady) -> None:
    match = SIZE.fullmatch(size) if size is not None else None
    given = (int(match[1]), int(match[2])) if match else None
    if size is not None and given != (ready.width, ready.height):
        raise invalid("size", size, f"allowed: '{ready.width}x{ready.height}'")


def _frames(body: VideoCreate, fps: int, max_seconds: float) -> int:
    """Whole frames, from `num_frames` or `seconds`; both only if they agree."""
    most = math.floor(max_seconds * fps)
    if body.seconds is not None and not 1 / fps <= body.seconds <= max_seconds:
        raise invalid("seconds", body.seconds, f"allowed: {1 / fps:g} to {max_seconds:g}")
    if body.num_frames is not None and not 1 <= body.num_frames <= most:
        raise invalid("num_frames", body.num_frames, f"allowed: 1 to {most}")
    seconds = DEFAULT_SECONDS if body.seconds is None else body.seconds
    frames = min(round(seconds * fps), most)
    if body.num_frames is None:
        return frames
    if body.seconds is not None and body.num_frames != frames:
        message = f"num_frames: {body.num_frames} does not fit seconds {body.seconds:g}: {frames}"
        raise ApiError(422, "invalid_value", message, param="num_frames")
    return body.num_frames


def view(job: Job, position: int | None) -> Video:
    """A job as the API shows it."""
    request = job.request
    error = None
    if job.error_code is not None:
        error = VideoError(code=job.error_code, message=job.error_message or "")
    return Video(
        id=job.id,
        model=request.model,
        status=job.state,
        progress=_percent(job),
        created_at=int(job.created_at),
        started_at=None if job.started_at is None else int(job.started_at),
        completed_at=None if job.completed_at is None else int(job.completed_at),
        prompt=request.prompt,
        recognised=job.recognised,
        seconds=f"{request.seconds:g}",
        size=f"{request.width}x{request.height}",
        error=error,
        seed=request.seed,
        num_inference_steps=request.steps,
        num_frames=request.frames,
        fps=request.fps,
        width=request.width,
        height=request.height,
        generate_audio=request.audio,
        metadata=request.metadata,
        attempt=job.attempt,
        queue_position=position,
        inference_time_s=None if job.run_seconds is None else round(job.run_seconds, 3),
        peak_memory_mb=job.peak_memory_mb,
        url=f"/v1/videos/{job.id}/content" if job.state == "completed" else None,
    )


def _percent(job: Job) -> int:
    """100 only once the file is there."""
    return 100 if job.state == "completed" else min(99, int(100 * job.progress))
