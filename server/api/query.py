"""The query of a request, as strict as its body: UTF-8, and each name once.

What it is not: the meaning of the names, which the routes' own models have.
"""

from urllib.parse import unquote_to_bytes

from fastapi import Request

from onbeat.server.api.forms import check_utf8, repeated


async def check_query(request: Request) -> None:
    """Raises ApiError 422: of two values under one name nobody can say which one counts, and bytes
    that are no text would be taken for another one."""
    seen: set[str] = set()
    for pair in request.scope["query_string"].replace(b"+", b" ").split(b"&"):
        name, _, value = (unquote_to_bytes(part) for part in pair.partition(b"="))
        check_utf8("query", name)
        text = name.decode()
        check_utf8(text, value)
        if text in seen:
            raise repeated(text)
        if pair:
            seen.add(text)
