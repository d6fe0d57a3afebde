"""The path and query of a request, as strict as its body: UTF-8, known names, each once, no NUL.

What it is not: the meaning of the names, which the routes' own parameters and models have.
"""

from collections.abc import Iterable, Iterator
from urllib.parse import unquote_to_bytes

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from onbeat.server.api.errors import ApiError, field_names
from onbeat.server.api.forms import check_utf8, repeated
from onbeat.server.wording import cut

NUL = "\0"
"""No id has it, and Postgres takes no text with it."""


async def check_query(request: Request) -> None:
    """Raises ApiError 422: of two values under one name nobody can say which one counts, and bytes
    that are no text would be taken for another one. 404 for a path with a NUL."""
    if NUL in request.scope["path"]:
        raise ApiError(404, "not_found", "There is no such path: it has a NUL character.")
    seen: dict[str, None] = {}
    for pair in request.scope["query_string"].replace(b"+", b" ").split(b"&"):
        name, _, value = (unquote_to_bytes(part) for part in pair.partition(b"="))
        check_utf8("query", name)
        text = name.decode()
        check_utf8(text, value)
        if NUL.encode() in value:
            message = f"{text}: it has a NUL character; allowed: text without"
            raise ApiError(422, "invalid_value", message, param=text)
        if text in seen:
            raise repeated(text)
        if pair:
            seen[text] = None
    route = request.scope["route"]
    if seen and isinstance(route, APIRoute) and "OPTIONS" not in (route.methods or ()):
        # What may be posted to an address is told of the whole address, with its query.
        _check_names(seen, list(_names(route.dependant)))


def _check_names(given: Iterable[str], known: list[str]) -> None:
    for name in given:
        if name not in known:
            message = f"{cut(name)}: unknown field; allowed: {', '.join(known) or 'none'}"
            raise ApiError(422, "unknown_field", message, param=cut(name))


def _names(dependant: Dependant) -> Iterator[str]:
    """What a route, or one of its dependencies, reads from the query."""
    for field in dependant.query_params:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from field_names(kind)
        else:
            yield field.alias
    for inner in dependant.dependencies:
        yield from _names(inner)
