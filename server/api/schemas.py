"""The bodies and answers of the live routes.

What steers a running session is in `steering.py`. Limits that depend on the served model (sizes,
steps) are checked in `limits.py`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from onbeat.server.api.fields import (
    MAX_PROMPT,
    Number,
    Prompt,
    Seed,
    ShortStepsField,
    Steps,
    StepsField,
    Strict,
    Whole,
)
from onbeat.server.api.prompt_schema import AnyText

MAX_REFERENCE = 11_500_000
"""Characters: 8 MiB in base64, with the head of a data URL."""


class SessionCreate(Strict):
    """What POST /v1/sessions takes. Sizes are the model's; others are refused."""

    prompt: AnyText
    model: str | None = Field(None, max_length=200)
    mode: Literal["text-to-video", "video-to-video"] = "text-to-video"
    negative_prompt: str | None = Field(None, max_length=MAX_PROMPT)
    seed: Seed | None = None
    num_inference_steps: Steps | None = StepsField
    strength: Number | None = None
    """Of video-to-video: how far from the input, above 0 up to 1; absent: the model's."""
    motion_aware: bool = False
    """Of video-to-video: less strength while the input moves."""
    fit: Literal["cover", "contain"] = "cover"
    """Of video-to-video: fill the model's size and cut, or show all on black."""
    fps: Whole | None = None
    """Pictures a second that are sent: the model's rate, or one of its whole shares."""
    width: Whole | None = None
    height: Whole | None = None
    audio: bool = True
    reference: Annotated[str, Field(max_length=MAX_REFERENCE)] | None = None
    """What it goes on from: a PNG, a JPEG or a video of up to 10 s; base64 or a data URL."""
    wait: bool = False
    """If the device is full: wait for room instead of being refused."""
    paused: bool = False


class PlainQuery(Strict):
    """The query of POST /whep, for players that know only an address."""

    prompt: Prompt
    seed: Seed | None = None
    steps: Steps | None = ShortStepsField


class SessionView(BaseModel):
    """A session as the API shows it."""

    id: str
    object: Literal["session"] = "session"
    status: Literal["starting", "queued", "live", "paused", "restarting", "failed", "closed"]
    model: str
    mode: Literal["text-to-video", "video-to-video"] = "text-to-video"
    strength: float | None = None
    """Of video-to-video."""
    prompt: str
    recognised: list[str] | None
    """Words that the model understood of this prompt; None until the engine has told."""
    seed: int
    num_inference_steps: int
    audio: bool
    fps: int
    width: int
    height: int
    created_at: int
    whep_url: str
    duplex_url: str
    whip_url: str | None = None
    """Where a publisher sends; None for a session that takes no video."""
    events_url: str
    recordings_url: str
    """Where recordings of it are begun."""
    snapshot_url: str
    viewers: int
    revision: int
    queue_position: int | None = None
    """While it waits for room; 1 is next."""
    estimated_wait_s: float | None = None
    """Until it has room, from how long streams stay; None while that is not known."""
    quality: str | None = None
    """The level of the quality ladder: "full", or what it is down to."""
    error: dict[str, Any] | None = None


class Applied(BaseModel):
    """The first chunk made under a revision. `media_time` is seconds of the stream."""

    revision: int
    chunk: int
    media_time: float
    due_in_ms: float
    recognised: list[str]


class ControlView(SessionView):
    """The answer to PATCH: the session, and where the change takes effect.

    `chunk` is None while that is not known: the stream is paused, or it took longer than 2 s.
    """

    control_id: str | int | None = None
    """The control's own id."""
    chunk: int | None
    media_time: float | None
    applied: bool
