"""The nouns shared by API, jobs and engine: kinds, causes, ids. One name each (docs/engine.md)."""

import secrets
from typing import Literal

StreamKind = Literal["live", "job"]
Place = Literal["resident", "offloading", "host", "restoring", "latents"]
"""Where a stream's keys and values are: in pages, on the way out, in host memory, on the way in, or
nowhere, to be made again from latents."""
DropCause = Literal["queue", "compute", "decode", "transfer", "encode", "paused", "engine_restart"]
Transition = Literal["cut", "recache"]
EndReason = Literal["finished", "closed", "failed", "engine_lost"]


def new_id(prefix: str) -> str:
    """An id such as `session_3f…` with 128 random bits."""
    return f"{prefix}_{secrets.token_hex(16)}"
