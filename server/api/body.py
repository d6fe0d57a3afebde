"""Reading request bodies: size-limited, of the right content type, strict about unknown fields.

JSON for all; `multipart/form-data` where the OpenAI client needs it. What it is not: the meaning of
the fields, which the models in `schemas.py` and `video_schema.py` hold.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from onbeat.server.api.errors import ApiError, validated
from onbeat.server.api.wording import shown

Model = TypeVar("Model", bound=BaseModel)

JSON_TYPE = "application/json"
FORM_TYPE = "multipart/form-data"
MAX_FIELDS = 64
MAX_PART = 12 * 1024 * 1024
"""A text field may be media in base64."""


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


def schema_of(model: type[BaseModel], *types: str) -> dict[str, Any]:
    """`openapi_extra` for a route whose body these dependencies read."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    content = {kind: {"schema": schema} for kind in types or (JSON_TYPE,)}
    return {"requestBody": {"required": True, "content": content}}


def expect_type(request: Request, *allowed: str) -> str:
    """The request's content type without parameters. Raises ApiError 415."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in allowed:
        message = f"content-type: {given!r} is not allowed; allowed: {', '.join(allowed)}"
        raise ApiError(415, "unsupported_media_type", message, param="content-type")
    return given


def parsed_json(raw: bytes) -> Any:
    """A body as JSON (RFC 8259): UTF-8, each name of an object once. Raises ApiError 400."""
    try:
        data = json.loads(raw.decode(), object_pairs_hook=_once)
        json.dumps(data, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except UnicodeDecodeError as error:
        message = f"The body is not valid JSON: byte {error.start} is not UTF-8."
        raise ApiError(400, "invalid_json", message) from error
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "invalid_json", f"The body is not valid JSON: {error}.") from error
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two values under one name: nobody can say which one counts (RFC 8259, 4)."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"the name {shown(twice)} stands twice in one object")
    return found


async def read_json(request: Request) -> object:
    """The body as a JSON object. Raises ApiError 400 if it is none."""
    data = parsed_json(await request.body())
    if not isinstance(data, dict):
        raise ApiError(400, "invalid_json", "The body has to be a JSON object.")
    return data


async def read_form(request: Request, files: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields of a multipart form: `a[b]` becomes a dict, repeated `a[]` a list.

    Numbers stay strings; the models convert them. Raises ApiError 400 or 422.
    """
    try:
        form = await request.form(max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_PART)
    except ApiError:
        raise
    except HTTPException as error:
        raise ApiError(400, "invalid_form", f"The form cannot be read: {error.detail}.") from error
    try:
        items = [(key, await _value(key, value, files)) for key, value in form.multi_items()]
        return _nested(items)
    finally:
        await form.close()


async def _value(key: str, value: UploadFile | str, files: frozenset[str]) -> str | bytes:
    if isinstance(value, str):
        return value
    if key in files:
        return await value.read()
    allowed = ", ".join(sorted(files)) or "none"
    message = f"{key}: it may not be a file; files that are allowed: {allowed}"
    raise ApiError(422, "unsupported_field", message, param=key)


def _nested(items: list[tuple[str, str | bytes]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in items:
        name, bracket, rest = key.partition("[")
        inner = rest.removesuffix("]")
        if not bracket:
            _put(result, name, value)
        elif inner:
            _put(_child(result, name, dict), inner, value)
        else:
            _child(result, name, list).append(value)
    return result


def _put(target: dict[str, Any], name: str, value: str | bytes) -> None:
    if name in target:
        raise ApiError(422, "repeated_field", f"{name}: given more than once", param=name)
    target[name] = value


def _child(target: dict[str, Any], name: str, kind: type) -> Any:
    child = target.setdefault(name, kind())
    if not isinstance(child, kind):
        raise ApiError(422, "repeated_field", f"{name}: given in two forms", param=name)
    return child
