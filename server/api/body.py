"""Reading request bodies: size-limited, of the right content type, strict about unknown fields.

JSON for all; `multipart/form-data` (forms.py) where the OpenAI client needs it. What it is not: the
meaning of the fields, which the models in `schemas.py` and `video_schema.py` hold.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from python_multipart.multipart import parse_options_header

from onbeat.server.api.errors import ApiError, validated
from onbeat.server.api.fields import Strict
from onbeat.server.api.forms import read_form
from onbeat.server.wording import shown

Model = TypeVar("Model", bound=BaseModel)

JSON_TYPE = "application/json"
UTF8 = ("utf-8", "utf8")
FORM_TYPE = "multipart/form-data"


def json_body(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that reads a JSON object as `model`."""

    async def read(request: Request) -> Model:
        expect_type(request, JSON_TYPE)
        parsed: Model = validated(model, await read_json(request))
        return parsed

    return read


def json_or_form_body(
    model: type[Model], files: frozenset[str] = frozenset()
) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that reads a JSON object or a multipart form as `model`.

    files: the fields that may be files; the model gets their bytes.
    """

    async def read(request: Request) -> Model:
        kind = expect_type(request, JSON_TYPE, FORM_TYPE)
        data = await (read_json(request) if kind == JSON_TYPE else read_form(request, files))
        parsed: Model = validated(model, data)
        return parsed

    return read


class Nothing(Strict):
    """The body of a route that needs none."""


async def no_body(request: Request) -> None:
    """A dependency: no body, or an empty JSON object. Raises ApiError 400, 415, 422."""
    if await request.body():
        expect_type(request, JSON_TYPE)
        validated(Nothing, await read_json(request))


def schema_of(model: type[BaseModel], *types: str) -> dict[str, Any]:
    """`openapi_extra` for a route whose body these dependencies read."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    content = {kind: {"schema": schema} for kind in types or (JSON_TYPE,)}
    return {"requestBody": {"required": True, "content": content}}


def expect_type(request: Request, *allowed: str) -> str:
    """The request's content type without parameters; text is UTF-8. Raises ApiError 415."""
    kind, parameters = parse_options_header(request.headers.get("content-type", ""))
    given = kind.decode("latin-1").strip().lower()
    if given not in allowed:
        raise _unsupported(repr(given), ", ".join(allowed))
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
    if charset.strip().lower() not in UTF8:
        raise _unsupported(f"charset {charset!r}", "utf-8")
    return given


def _unsupported(given: str, allowed: str) -> ApiError:
    message = f"content-type: {given} is not allowed; allowed: {allowed}"
    return ApiError(415, "unsupported_media_type", message, param="content-type")


def parsed_json(raw: bytes) -> Any:
    """A body as JSON (RFC 8259): UTF-8, each name of an object once. Raises ApiError 400."""
    try:
        data = json.loads(raw.decode(), object_pairs_hook=_once)
        json.dumps(data, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        message = f"The body is not valid JSON: {_why(error)}."
        raise ApiError(400, "invalid_json", message) from error
    return data


def _why(error: ValueError | RecursionError) -> str:
    """What is wrong with a body, in words of its own where Python speaks of itself."""
    match error:
        case UnicodeDecodeError():
            return f"byte {error.start} is not UTF-8"
        case UnicodeEncodeError():
            return "a text has half of a surrogate pair"
        case RecursionError():
            return "it is nested too deeply"
        case json.JSONDecodeError() | _Twice():
            return str(error)
        case _:  # Python's limit on the digits of whole numbers
            return "a number has too many digits"


class _Twice(ValueError):
    """A name stands twice in an object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two values under one name: nobody can say which one counts (RFC 8259, 4)."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise _Twice(f"the name {shown(twice)} stands twice in one object")
    return found


async def read_json(request: Request) -> object:
    """The body as a JSON object. Raises ApiError 400 if it is none."""
    data = parsed_json(await request.body())
    if not isinstance(data, dict):
        raise ApiError(400, "invalid_json", "The body has to be a JSON object.")
    return data
