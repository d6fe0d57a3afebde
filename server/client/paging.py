"""Lists that come in pages, as one: the next page is asked for when the one before is used up.

What it is not: HTTP (transport.py), or which lists there are (calls.py).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from onbeat.client.calls import Call
from onbeat.client.records import Page

T = TypeVar("T")
PAGE = 100
"""The most that a server gives at once."""


def every(
    send: Callable[[Call[Page[T]]], Page[T]], first: Call[Page[T]], most: int | None
) -> Iterator[T]:
    """All entries of a list, or its first `most`. first: the call without `after` and `limit`."""
    call = _sized(first, most)
    while call is not None:
        page = send(call)
        yield from page.data
        call, most = _next(call, page, most)


async def every_async(
    send: Callable[[Call[Page[T]]], Awaitable[Page[T]]], first: Call[Page[T]], most: int | None
) -> AsyncIterator[T]:
    """Like `every`, awaited."""
    call = _sized(first, most)
    while call is not None:
        page = await send(call)
        for each in page.data:
            yield each
        call, most = _next(call, page, most)


def _sized(call: Call[Page[T]], most: int | None) -> Call[Page[T]] | None:
    if most is not None and most <= 0:
        return None
    size = PAGE if most is None else min(PAGE, most)
    return replace(call, params={**call.params, "limit": size})


def _next(
    call: Call[Page[T]], page: Page[T], most: int | None
) -> tuple[Call[Page[T]] | None, int | None]:
    if not page.has_more:
        return None, most
    left = None if most is None else most - len(page.data)
    after = replace(call, params={**call.params, "after": page.last_id})
    return _sized(after, left), left
