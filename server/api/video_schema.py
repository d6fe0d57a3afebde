"""The bodies of /v1/videos: the OpenAI wire format and our extras, strict, numbers or their text.

What depends on the served model is checked in video_request.py; a job as it is shown is made in
video_view.py.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from onbeat.server.api.fields import (
    MAX_PROMPT,
    Number,
    Prompt,
    Seed,
    Steps,
    Strict,
    Whole,
)
from onbeat.server.api.reference import BadText, media_bytes
from onbeat.server.api.targets import MAX_URL
from onbeat.server.jobs.formats import Format
from onbeat.server.jobs.job import PRIORITIES, JobState
from onbeat.server.jobs.webhooks import WebhookState

MAX_METADATA = 16
VIDEO_ID = "video_"


def _media(value: Any) -> Any:
    """A file's bytes: as they came in a form, or from text; OpenAI's object is understood too."""
    if isinstance(value, dict) and list(value) == ["image_url"]:
        value = value["image_url"]
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("media", "allowed: a file, base64, or a data URL")
    if value.startswith(("http:", "https:")):
        raise PydanticCustomError("media", "it is not fetched; allowed: base64, or a data URL")
    try:
        return media_bytes(value)
    except BadText as error:
        raise PydanticCustomError("media", "{why}", {"why": str(error)}) from error


def _source(value: Any) -> Any:
    """The id of a video, or a file."""
    if isinstance(value, dict) and list(value) == ["id"]:
        value = value["id"]
        if not isinstance(value, str) or not value.isprintable():
            raise PydanticCustomError("media", "allowed: the id of a video")
        return value
    return value if isinstance(value, str) and value.startswith(VIDEO_ID) else _media(value)


MetadataText = Annotated[str, Field(max_length=512)]
MetadataName = Annotated[str, Field(min_length=1, max_length=64)]
Metadata = Annotated[dict[MetadataName, MetadataText], Field(max_length=MAX_METADATA)]
Priority = Annotated[Whole, Field(ge=PRIORITIES[0], le=PRIORITIES[-1])]
_TEXT = {"type": "string", "description": "base64 or a data URL; a file in a form"}
_ID = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
Media = Annotated[bytes, BeforeValidator(_media), WithJsonSchema(_TEXT)]
Source = Annotated[str | bytes, BeforeValidator(_source), WithJsonSchema({"anyOf": [_ID, _TEXT]})]


class Options(Strict):
    """What every request for a video may say."""

    negative_prompt: str | None = Field(None, max_length=MAX_PROMPT)
    seed: Seed | None = None
    num_inference_steps: Steps | None = None
    guidance_scale: Number | None = None
    generate_audio: bool | None = None
    output_format: Format | None = None
    """Of the file; mp4 if absent, and of a remix its source's."""
    priority: Priority = 0
    """Among the jobs of one key higher ones go first."""
    webhook_url: str | None = Field(None, min_length=1, max_length=MAX_URL)
    """Told of the end: completed, failed or cancelled."""
    metadata: Metadata = {}


class VideoCreate(Options):
    """What POST /v1/videos takes, as JSON or as a form."""

    prompt: Prompt
    model: str | None = Field(None, max_length=200)
    seconds: Number | None = None
    size: str | None = Field(None, max_length=40)
    num_frames: Whole | None = None
    fps: Whole | None = None
    width: Whole | None = None
    height: Whole | None = None
    input_reference: Media | None = None
    """What it begins from: a PNG, a JPEG or a video of up to 10 s."""


class VideoRemix(Options):
    """What POST /v1/videos/{id}/remix takes; what is absent is the remixed video's."""

    prompt: Prompt


class VideoExtension(Options):
    """What POST /v1/videos/extensions takes: what is to come, and after which video."""

    prompt: Prompt
    video: Source
    model: str | None = Field(None, max_length=200)
    seconds: Number | None = None
    num_frames: Whole | None = None


class VideoEdit(Options):
    """What POST /v1/videos/edits takes."""

    prompt: Prompt
    video: Source
    model: str | None = Field(None, max_length=200)


class VideoError(BaseModel):
    code: str
    message: str


class VideoWebhook(BaseModel):
    """What became of telling `url`; `error` is that of the last attempt."""

    url: str
    status: WebhookState
    attempts: int
    error: str | None


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
    expires_at: int | None
    prompt: str
    recognised: list[str] | None
    """Words that the model understood; None until the engine has told."""
    seconds: str
    size: str
    quality: Literal["standard"] = "standard"
    remixed_from_video_id: str | None
    extended_from_video_id: str | None
    error: VideoError | None
    seed: int
    num_inference_steps: int
    num_frames: int
    fps: int
    width: int
    height: int
    generate_audio: bool
    output_format: Format
    media_type: str
    """Of the file."""
    priority: int
    metadata: dict[str, str]
    webhook: VideoWebhook | None
    attempt: int
    queue_position: int | None
    eta_s: float | None
    """Estimated seconds until it is done."""
    inference_time_s: float | None
    stage_durations: dict[str, float]
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
