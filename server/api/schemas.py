"""The bodies and answers of the live routes, and the kinds of values that they are made of.

What steers a running session is in `steering.py`. Limits that depend on the served model (sizes,
steps) are checked in `limits.py`.
"""

import unicodedata
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

MAX_SEED = 2**63 - 1
MAX_PROMPT = 2000
MAX_REFERENCE = 11_500_000
"""Characters: 8 MiB in base64, with the head of a data URL."""


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "should be a whole number")
    return value


def _no_blank(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise PydanticCustomError("blank", "should have 1 to 2000 characters, not all blank")
    return value


def _printable(value: Any) -> Any:
    if isinstance(value, str) and any(_is_control(character) for character in value):
        raise PydanticCustomError("control", "should not have control characters")
    return value


def _is_control(character: str) -> bool:
    """Control characters and halves of surrogate pairs; line breaks and tabs are fine."""
    return unicodedata.category(character) in ("Cc", "Cs") and character not in "\t\n\r"


Whole = Annotated[int, BeforeValidator(_no_bool)]
Number = Annotated[float, BeforeValidator(_no_bool), Field(allow_inf_nan=False)]
Seed = Annotated[Whole, Field(ge=0, le=MAX_SEED)]
Prompt = Annotated[
    str,
    BeforeValidator(_no_blank),
    BeforeValidator(_printable),
    Field(min_length=1, max_length=MAX_PROMPT),
]
Steps = Annotated[Whole, Field(ge=1, le=64)]


class Strict(BaseModel):
    """Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SessionCreate(Strict):
    """What POST /v1/sessions takes. Sizes and rates are the model's; others are refused."""

    prompt: Prompt
    model: str | None = Field(None, max_length=200)
    mode: Literal["text-to-video", "video-to-video"] = "text-to-video"
    negative_prompt: str | None = Field(None, max_length=MAX_PROMPT)
    seed: Seed | None = None
    num_inference_steps: Steps | None = None
    strength: Number | None = None
    """Of video-to-video: how far from the input, above 0 up to 1; absent: the model's."""
    motion_aware: bool = False
    """Of video-to-video: less strength while the input moves."""
    fit: Literal["cover", "contain"] = "cover"
    """Of video-to-video: fill the model's size and cut, or show all on black."""
    fps: Whole | None = None
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
    steps: Steps | None = None


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
    recognised: list[str]
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
