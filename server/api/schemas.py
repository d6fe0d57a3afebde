"""The bodies of the live routes and of the data channel: one `Control` for both.

Limits that depend on the served model (sizes, steps) are checked in `limits.py`.
"""

import unicodedata
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from onbeat.server.vocabulary import Transition

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
    fps: Whole | None = None
    width: Whole | None = None
    height: Whole | None = None
    audio: bool = True
    reference: Annotated[str, Field(max_length=MAX_REFERENCE)] | None = None
    """What it goes on from: a PNG, a JPEG or a video of up to 10 s; base64 or a data URL."""
    wait: bool = False
    """If the device is full: wait for room instead of being refused."""
    paused: bool = False


class ForkCreate(Strict):
    """What POST /v1/sessions/{id}/fork takes; what is absent is the forked session's."""

    prompt: Prompt | None = None
    transition: Transition | None = None
    """Of another prompt: a new scene, or the same one going on; absent: the model's way."""
    seed: Seed | None = None
    steps: Steps | None = Field(None, validation_alias=AliasChoices("steps", "num_inference_steps"))


class Control(Strict):
    """A change of a running session; what is absent stays as it is."""

    type: Literal["control"] = "control"
    prompt: Prompt | None = None
    seed: Seed | None = None
    steps: Steps | None = Field(None, validation_alias=AliasChoices("steps", "num_inference_steps"))
    paused: bool | None = None
    transition: Transition | None = None
    """Of a new prompt: a new scene, or the same one going on; absent: the model's way."""

    @model_validator(mode="after")
    def _something(self) -> "Control":
        if self.prompt is None and self.seed is None and self.steps is None and self.paused is None:
            raise PydanticCustomError(
                "nothing", "should set at least one of prompt, seed, steps, paused"
            )
        return self


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
    mode: Literal["text-to-video"] = "text-to-video"
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

    chunk: int | None
    media_time: float | None
    applied: bool
