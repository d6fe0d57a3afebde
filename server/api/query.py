"""The path and the query of a request, as strict as its body: UTF-8, each name once, no NUL.

What it is not: the meaning of the names, which the routes' own models have.
"""

from urllib.parse import unquote_to_bytes

from fastapi import Request

from onbeat.server.api.errors import ApiError
from onbeat.server.api.forms import check_utf8, repeated

NUL = "\0"
"""No id has it, and Postgres takes no text with it."""


async def check_query(request: Request) -> None:
    """Raises ApiError 422: of two values under one name nobody can say which one counts, and bytes
    that are no text would be taken for another one. 404 for a path with a NUL."""
    if NUL in request.scope["path"]:
        raise ApiError(404, "not_found", "There is no such path: it has a NUL character.")
    seen: set[str] = set()
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
            seen.add(text)
