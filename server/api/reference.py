"""Media of a request, a picture or a clip, to what the engine takes: packed, at the model's size.

A text is base64 or a data URL; nothing is fetched. What it is not: the decoding of files
(server/jobs/reference_file.py, reference_tail.py), which runs on a thread here.
"""

import asyncio
import base64

from onbeat.server.api.errors import ApiError
from onbeat.server.engine.messages import EngineReady
from onbeat.server.jobs.reference_file import BadReference, read_reference
from onbeat.server.jobs.reference_tail import read_tail


class BadText(ValueError):
    """A text that is no media; it says what it begins with and what is allowed."""


async def packed_reference(
    text: str | bytes | None, ready: EngineReady, name: str = "reference"
) -> bytes | None:
    """What `OpenStream.reference` takes; None for None. Raises ApiError 422 about field `name`."""
    if text is None:
        return None
    check_encoders(ready, name)
    try:
        return await asyncio.to_thread(
            read_reference,
            media_bytes(text) if isinstance(text, str) else text,
            width=ready.width,
            height=ready.height,
            fps=ready.fps,
            sample_rate=ready.sample_rate,
        )
    except (BadReference, BadText) as error:
        raise _wrong(name, str(error).removeprefix("reference: ")) from error


async def packed_tail(data: bytes, ready: EngineReady, name: str) -> bytes:
    """The end of a video, as much as the model looks back. Raises ApiError 422 about `name`."""
    check_encoders(ready, name)
    try:
        return await asyncio.to_thread(
            read_tail,
            data,
            seconds=ready.window_chunks * ready.chunk_frames / ready.fps,
            width=ready.width,
            height=ready.height,
            fps=ready.fps,
            sample_rate=ready.sample_rate,
        )
    except BadReference as error:
        text = str(error).removeprefix("reference: ").removeprefix("video: ")
        raise _wrong(name, text) from error


def check_encoders(ready: EngineReady, name: str) -> None:
    """Raises ApiError 422 for a model that takes no media."""
    if not ready.takes_reference:
        raise _wrong(name, f"{ready.model} has no encoders; allowed: none")


def media_bytes(text: str) -> bytes:
    """Base64 or a data URL. Raises BadText."""
    head, comma, body = text.partition(",")
    if not comma:
        body = text
    elif not (head.startswith("data:") and head.endswith(";base64")):
        raise BadText(f"begins with {head[:40]!r}; allowed: base64, or data:...;base64,")
    try:
        return base64.b64decode(body, validate=True)
    except ValueError as error:  # binascii.Error is one; text that is not ASCII raises another
        raise BadText(f"not base64 ({error}); allowed: base64, or a data URL") from error


def _wrong(name: str, message: str) -> ApiError:
    return ApiError(422, "invalid_value", f"{name}: {message}", param=name)
