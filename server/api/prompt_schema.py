"""A prompt as bodies hold it: one text, or several that are weighted; and as the engine takes it.

The same for sessions, forks and changes of running ones. What it is not: their other fields.
"""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter, WrapValidator

from onbeat.server.api.fields import Number, Prompt, Strict
from onbeat.server.vocabulary import Prompt as AnyPrompt
from onbeat.server.vocabulary import PromptPart

MAX_PARTS = 8
MAX_WEIGHT = 10.0


class WeightedText(Strict):
    """One part of a prompt; the weights' shares of their sum are what counts."""

    text: Prompt
    weight: Annotated[Number, Field(gt=0, le=MAX_WEIGHT)] = 1.0


Parts = Annotated[tuple[WeightedText, ...], Field(min_length=1, max_length=MAX_PARTS)]
_TEXT: TypeAdapter[str] = TypeAdapter(Prompt)
_PARTS: TypeAdapter[tuple[WeightedText, ...]] = TypeAdapter(Parts)


def _text_or_parts(value: Any, _handler: Any) -> Any:
    """One kind at a time, so that an error names the field and not both readings of it."""
    return (_PARTS if isinstance(value, list) else _TEXT).validate_python(value)


AnyText = Annotated[Prompt | Parts, WrapValidator(_text_or_parts)]
"""A text, or a list of weighted texts."""


def prompt_of(given: str | tuple[WeightedText, ...]) -> AnyPrompt:
    """As the engine takes it: one text alone needs no weight."""
    if isinstance(given, str):
        return given
    if len(given) == 1:
        return given[0].text
    return tuple(PromptPart(text=part.text, weight=part.weight) for part in given)
