"""A body of /v1/videos to the job's request: defaults filled in, seed drawn, all of it checked.

Each error names field, value and what is allowed. What it is not: the wire format
(video_schema.py), or the queue (video_submit.py).
"""

import hashlib
import math
import re

import msgspec

from onbeat.server.api.errors import ApiError, invalid
from onbeat.server.api.limits import (
    check_fixed,
    check_guidance,
    check_model,
    check_negative_prompt,
    check_steps,
    seed_or_random,
)
from onbeat.server.api.targets import BadTarget, Unresolved, addresses, parse_target
from onbeat.server.api.video_schema import Options, VideoCreate, VideoExtension, VideoRemix
from onbeat.server.engine.messages import EngineReady
from onbeat.server.jobs.formats import Format
from onbeat.server.jobs.job import JobRequest
from onbeat.server.webhook_settings import Network

DEFAULT_SECONDS = 4.0
SIZE = re.compile(r"(\d{1,6})x(\d{1,6})")


def resolve(
    body: VideoCreate | VideoExtension, ready: EngineReady, max_seconds: float, owner: str = ""
) -> JobRequest:
    """Of a new video. Raises ApiError 422 or 404."""
    check_model(body.model, ready)
    _check_options(body)
    if isinstance(body, VideoCreate):
        _check_size(body.size, ready)
        check_fixed("fps", body.fps, ready.fps)
        check_fixed("width", body.width, ready.width)
        check_fixed("height", body.height, ready.height)
    return JobRequest(
        model=ready.model,
        prompt=body.prompt,
        seed=seed_or_random(body.seed),
        steps=check_steps("num_inference_steps", body.num_inference_steps, ready),
        frames=_frames(body.seconds, body.num_frames, ready.fps, max_seconds),
        fps=ready.fps,
        width=ready.width,
        height=ready.height,
        audio=body.generate_audio is not False,
        format=_format(body.output_format or "mp4", body.generate_audio is not False),
        metadata=body.metadata,
        owner=owner,
        priority=body.priority,
        webhook_url=body.webhook_url,
    )


def remixed(
    body: VideoRemix, source_id: str, source: JobRequest, ready: EngineReady, owner: str
) -> JobRequest:
    """The source's request under another prompt: same seed, length and beginning, unless the body
    says so. Raises ApiError 422, 409 if another model is served now."""
    _check_options(body)
    made_by = (source.model, source.width, source.height, source.fps)
    if made_by != (ready.model, ready.width, ready.height, ready.fps):
        message = f"The video was made by {source.model}; {ready.model} is served now."
        raise ApiError(409, "model_unavailable", message, param="id")
    steps = source.steps if body.num_inference_steps is None else body.num_inference_steps
    audio = source.audio if body.generate_audio is None else body.generate_audio
    return msgspec.structs.replace(
        source,
        prompt=body.prompt,
        seed=source.seed if body.seed is None else body.seed,
        steps=check_steps("num_inference_steps", steps, ready),
        audio=audio,
        format=_format(body.output_format or source.format, audio),
        metadata=body.metadata,
        owner=owner,
        priority=body.priority,
        webhook_url=body.webhook_url,
        kind="remix",
        parent=source_id,
    )


def with_input(request: JobRequest, data: bytes | None) -> JobRequest:
    """The request of a job that begins from packed media."""
    if data is None:
        return request
    return msgspec.structs.replace(request, input_digest=hashlib.sha256(data).hexdigest())


async def check_webhook(url: str | None, networks: tuple[Network, ...]) -> None:
    """Raises ApiError 422 for an address that nothing would be sent to."""
    if url is None:
        return
    try:
        await addresses(parse_target(url), networks)
    except BadTarget as error:
        raise invalid("webhook_url", url, str(error)) from error
    except Unresolved:
        return  # it may have an address by the end of the job; each attempt checks again


def _check_options(body: Options) -> None:
    check_negative_prompt(body.negative_prompt)
    check_guidance(body.guidance_scale, "guidance_scale")


def _format(format: Format, audio: bool) -> Format:
    """Raises ApiError 422 for a sound file without sound."""
    if format == "wav" and not audio:
        raise invalid("output_format", format, "without sound allowed: 'mp4', 'webm', 'png'")
    return format


def _check_size(size: str | None, ready: EngineReady) -> None:
    match = SIZE.fullmatch(size) if size is not None else None
    given = (int(match[1]), int(match[2])) if match else None
    if size is not None and given != (ready.width, ready.height):
        raise invalid("size", size, f"allowed: '{ready.width}x{ready.height}'")


def _frames(seconds: float | None, count: int | None, fps: int, max_seconds: float) -> int:
    """Whole frames, from `num_frames` or `seconds`; both only if they agree."""
    most = math.floor(max_seconds * fps)
    if seconds is not None and not 1 / fps <= seconds <= max_seconds:
        raise invalid("seconds", seconds, f"allowed: {1 / fps:g} to {max_seconds:g}")
    if count is not None and not 1 <= count <= most:
        raise invalid("num_frames", count, f"allowed: 1 to {most}")
    wanted = DEFAULT_SECONDS if seconds is None else seconds
    frames = min(round(wanted * fps), most)
    if count is None:
        return frames
    if seconds is not None and count != frames:
        message = f"num_frames: {count} does not fit seconds {seconds:g}; allowed: {frames}"
        raise ApiError(422, "invalid_value", message, param="num_frames")
    return count
