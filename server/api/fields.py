"""The kinds of values that bodies are made of, with their limits. No body is here."""

import unicodedata
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

MAX_SEED = 2**63 - 1
MAX_PROMPT = 2000


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
STEPS = ("num_inference_steps", "steps")
"""Two names of one field, wherever a session is asked for or changed; answers have the first."""
StepsField = Field(None, validation_alias=AliasChoices(*STEPS))
ShortStepsField = Field(None, validation_alias=AliasChoices(*reversed(STEPS)))


class Strict(BaseModel):
    """Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
