"""A file as an answer: ETag, If-Range, HEAD, one range or several; errors as problem details.

The ranges are Starlette's. What it is not: where files lie (server/jobs).
"""

import re

from starlette.datastructures import Headers
from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send

from onbeat.server.api.errors import ApiError
from onbeat.server.wording import shown

_ONE = r"[ \t]*(\d+-\d*|-\d+)[ \t]*"
RANGES = re.compile(rf"bytes={_ONE}(,{_ONE})*", re.IGNORECASE)
"""RFC 9110, 14.1.2: what a Range header may ask for."""
MAX_DIGITS = 18


class MediaFile(FileResponse):
    """Like its base. A Range that is none is refused with 416 and says what the file has."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        asked, only_if = headers.get("range"), headers.get("if-range")
        if asked is not None and (only_if is None or self._should_use_range(only_if)):
            if asked.strip().lower().startswith("bytes"):
                assert self.stat_result is not None
                check_range(asked, self.stat_result.st_size)
            else:  # a unit that a server does not know is no range at all (RFC 9110, 14.2)
                others = [(k, v) for k, v in scope["headers"] if k.lower() != b"range"]
                scope = {**scope, "headers": others}
        await super().__call__(scope, receive, send)


def check_range(asked: str, size: int) -> None:
    """Raises ApiError 416 if that is no range of bytes, or not of a file of this size."""
    pairs = re.findall(r"(\d*)-(\d*)", asked)
    if not RANGES.fullmatch(asked) or not all(_within(a, b, size) for a, b in pairs):
        message = f"range: {shown(asked)} is not allowed"
        message += f"; allowed: bytes=FIRST-LAST within {size} bytes"
        headers = {"content-range": f"bytes */{size}"}
        raise ApiError(416, "range_not_satisfiable", message, param="range", headers=headers)


def _within(first: str, last: str, size: int) -> bool:
    if max(len(first), len(last)) > MAX_DIGITS:
        return False
    if not first:
        return int(last) > 0 and size > 0
    return int(first) < size and (not last or int(first) <= int(last))
