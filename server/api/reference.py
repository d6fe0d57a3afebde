"""The `reference` of a request: base64 or a data URL to packed media for the engine.

What it is not: the decoding of files (server/jobs/reference_file.py), which runs on a thread here.
"""

import asyncio
import base64

from onbeat.server.api.errors import ApiError
from onbeat.server.engine.messages import EngineReady
from onbeat.server.jobs.reference_file import BadReference, read_reference


async def packed_reference(text: str | None, ready: EngineReady) -> bytes | None:
    """What `OpenStream.reference` takes; None for None. Raises ApiError 422."""
    if text is None:
        return None
    if not ready.takes_reference:
        raise _wrong(f"reference: {ready.model} has no encoders; allowed: none")
    data = _decoded(text)
    try:
        return await asyncio.to_thread(
            read_reference,
            data,
            width=ready.width,
            height=ready.height,
            fps=ready.fps,
            sample_rate=ready.sample_rate,
        )
    except BadReference as error:
        raise _wrong(str(error)) from error


def _decoded(text: str) -> bytes:
    head, comma, body = text.partition(",")
    if not comma:
        body = text
    elif not (head.startswith("data:") and head.endswith(";base64")):
        raise _wrong(f"reference: begins with {head[:40]!r}; allowed: base64, or data:...;base64,")
    try:
        return base64.b64decode(body, validate=True)
    except ValueError as error:  # binascii.Error is one; text that is not ASCII raises another
        raise _wrong(f"reference: not base64 ({error}); allowed: base64, or a data URL") from error


def _wrong(message: str) -> ApiError:
    return ApiError(422, "invalid_value", message, param="reference")
