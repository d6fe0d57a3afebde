"""What can go wrong, as exceptions. All are `OnbeatError`s."""

from collections.abc import Mapping
from typing import Any


class OnbeatError(Exception):
    """Base of all errors of this client."""


class ConnectionFailed(OnbeatError):
    """No server answers at the address, or it went away in the middle of an answer."""


class Refused(OnbeatError):
    """The server said no. `code` and `param` are for programs, the text is for people.

    status: of HTTP; retry_after: seconds, where the server gave them.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param
        self.retry_after, self.request_id = retry_after, request_id


class VideoFailed(OnbeatError):
    """A job ended without a file. `code` says why: of the server, or "cancelled"."""

    def __init__(self, video_id: str, code: str, message: str) -> None:
        super().__init__(f"{video_id}: {message}")
        self.video_id, self.code = video_id, code


def refused(status: int, headers: Mapping[str, str], body: Any) -> Refused:
    """The exception of an answer that is no success. body: its JSON, or None."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        error = {}
    after = headers.get("retry-after", "")
    return Refused(
        str(error.get("message") or f"The server answered {status}."),
        status=status,
        code=error.get("code"),
        param=error.get("param"),
        retry_after=float(after) if after.replace(".", "", 1).isdigit() else None,
        request_id=headers.get("x-request-id"),
    )
