"""What steers a running session: one schema for PATCH, for the data channel, for pages and docs.

Limits that depend on the served model are checked in `limits.py`. What it is not: the carrying of a
change to the engine (sessions.py), or of messages (channel.py).
"""

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    ValidationError,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from onbeat.server.api.errors import from_validation
from onbeat.server.api.fields import (
    MAX_PROMPT,
    Number,
    Seed,
    ShortStepsField,
    Steps,
    Strict,
    Whole,
)
from onbeat.server.api.prompt_schema import AnyText
from onbeat.server.vocabulary import Transition

MAX_BLEND_CHUNKS = 64
ENVELOPE = ("type", "id")
"""Fields that name a message and change nothing."""


def _message_id(value: Any, _handler: Any) -> Any:
    """Both kinds at once, so that an error names the field and not a reading of it."""
    text = isinstance(value, str) and len(value) <= 64
    if text or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise PydanticCustomError("message_id", "allowed: a whole number, or at most 64 characters")


MessageId = Annotated[Annotated[str, Field(max_length=64)] | Whole, WrapValidator(_message_id)]
Blend = Annotated[Whole, Field(ge=2, le=MAX_BLEND_CHUNKS)]


class Control(Strict):
    """A change of a running session; what is absent stays as it is."""

    type: Literal["control"] = "control"
    id: MessageId | None = None
    """Comes back in every answer to this message."""
    prompt: AnyText | None = None
    transition: Transition | None = None
    """Of a new prompt: a new scene ("cut"), the same one going on ("recache"), or mixtures of both
    prompts on the way ("blend"); absent: the model's way."""
    blend_chunks: Blend | None = None
    """Of "blend": chunks until the new prompt is reached; 8 if absent."""
    negative_prompt: Annotated[str, Field(max_length=MAX_PROMPT)] | None = None
    """Only of models with guidance."""
    guidance: Number | None = None
    """Only of models with guidance."""
    seed: Seed | None = None
    steps: Steps | None = ShortStepsField
    strength: Number | None = None
    """Of video-to-video: how much is drawn anew, above 0 up to 1."""
    fps: Whole | None = None
    """Pictures a second that are sent: the model's rate, or one of its whole shares."""
    paused: bool | None = None
    reset: Literal[True] | None = None
    """The next chunk begins a new scene."""

    @model_validator(mode="after")
    def _something(self) -> "Control":
        if not changes(self):
            names = ", ".join(name for name in Control.model_fields if name not in ENVELOPE)
            raise PydanticCustomError(
                "nothing", "should set at least one of {names}", {"names": names}
            )
        return self


class ForkCreate(Strict):
    """What POST /v1/sessions/{id}/fork takes; what is absent is the forked session's."""

    prompt: AnyText | None = None
    transition: Literal["cut", "recache"] | None = None
    """Of another prompt: a new scene, or the same one going on; absent: the model's way."""
    seed: Seed | None = None
    steps: Steps | None = ShortStepsField


class ForkMessage(ForkCreate):
    """A fork asked for on the data channel."""

    type: Literal["fork"] = "fork"
    id: MessageId | None = None


class SnapshotMessage(Strict):
    """Keeps the picture that is shown now."""

    type: Literal["snapshot"] = "snapshot"
    id: MessageId | None = None


class PresenceMessage(Strict):
    """Whether somebody looks: a hidden or paused picture needs no new frames."""

    type: Literal["presence"] = "presence"
    id: MessageId | None = None
    visible: bool
    playing: bool = True


Message = Control | ForkMessage | SnapshotMessage | PresenceMessage
MESSAGES: dict[str, type[Message]] = {
    "control": Control,
    "fork": ForkMessage,
    "snapshot": SnapshotMessage,
    "presence": PresenceMessage,
}


def parse(data: dict[str, Any]) -> Message:
    """A message whose type is one of MESSAGES. Raises ApiError 422."""
    model = MESSAGES[data["type"]]
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False), model) from error


def changes(control: Control) -> dict[str, Any]:
    """The fields that it sets."""
    return {
        name: getattr(control, name)
        for name in Control.model_fields
        if name not in ENVELOPE and getattr(control, name) is not None
    }


def merged(old: Control, new: Control) -> Control:
    """Both changes in one: the later value wins; a later prompt comes with its own transition."""
    before = changes(old)
    if new.prompt is not None:
        before = {k: v for k, v in before.items() if k not in ("transition", "blend_chunks")}
    return Control.model_construct(**(before | changes(new)))
